// SPDX-License-Identifier: Apache-2.0

import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: see ../run for what each program is asked. */
public class Peers {
    static RedissonClient client;

    static RLock of(String kind, String name) {
        return kind.equals("redisson-fair") ? client.getFairLock(name) : client.getLock(name);
    }

    static double pairs(RLock lock, long count) {
        long start = System.nanoTime();
        for (long i = 0; i < count; i++) {
            lock.lock();
            lock.unlock();
        }
        return (System.nanoTime() - start) / 1e3 / count;
    }

    static double names(String kind, long seconds) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        LongAdder done = new LongAdder();
        Thread[] all = new Thread[64];
        for (int i = 0; i < all.length; i++) {
            RLock lock = of(kind, "names-" + i);
            all[i] = new Thread(() -> {
                while (!stop.get()) {
                    lock.lock();
                    lock.unlock();
                    done.increment();
                }
            });
            all[i].start();
        }
        Thread.sleep(1500);
        long before = done.sum(), start = System.nanoTime();
        Thread.sleep(seconds * 1000);
        double rate = (done.sum() - before) * 1e9 / (System.nanoTime() - start);
        stop.set(true);
        for (Thread one : all) {
            one.join();
        }
        return rate;
    }

    static long nowUs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    static void pause(long us) throws Exception {
        if (us > 0) {
            Thread.sleep(us / 1000, (int) (us % 1000) * 1000);
        }
    }

    static String grab(RLock lock, long seconds, long holdUs, String path) throws Exception {
        RandomAccessFile file = new RandomAccessFile(path, "rw");
        ByteBuffer note = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
        long self = ProcessHandle.current().pid(), end = System.nanoTime() + seconds * 1000000000L;
        ArrayList<Long> passed = new ArrayList<>();
        long count = 0;
        while (System.nanoTime() < end) {
            long asked = nowUs();
            lock.lock();
            long now = nowUs();
            file.seek(0);
            file.read(note.array());
            if (note.getLong(0) != self) {
                count++;
                if (asked < note.getLong(8)) {
                    passed.add(now - note.getLong(8));
                }
            }
            pause(holdUs);
            note.putLong(0, self).putLong(8, nowUs());
            file.seek(0);
            file.write(note.array());
            lock.unlock();
            pause(holdUs / 2);
        }
        Collections.sort(passed);
        return count + " " + (passed.isEmpty() ? -1 : passed.get(passed.size() / 2));
    }

    public static void main(String[] a) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + a[1]);
        client = Redisson.create(config);
        switch (a[2]) {
        case "pairs":
            RLock lock = of(a[0], "pairs");
            pairs(lock, 2000);
            System.out.printf(Locale.ROOT, "%.2f%n", pairs(lock, Long.parseLong(a[3])));
            break;
        case "names":
            System.out.printf(Locale.ROOT, "%.0f%n", names(a[0], Long.parseLong(a[3])));
            break;
        default:
            pairs(of(a[0], "warm-" + ProcessHandle.current().pid()), 500);
            System.out.println(grab(of(a[0], a[3]), Long.parseLong(a[4]), Long.parseLong(a[5]), a[6]));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
