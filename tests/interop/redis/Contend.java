// SPDX-License-Identifier: Apache-2.0

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's locks, for run: see contend.c. KIND: lock, fenced, write, read, or rw, which is both; "brief" behind it
 * makes leases of 2 s. And one more way: force PORT NAME KIND.
 */
public class Contend {
    private static RLock lock;
    private static RLock reader;
    private static boolean brief;

    /** The token; 0: none. */
    private static long take() {
        if (lock instanceof RFencedLock) {
            return ((RFencedLock) lock).lockAndGetToken();
        }
        if (brief) {
            lock.lock(2, TimeUnit.SECONDS);
        } else {
            lock.lock();
        }
        return 0;
    }

    private static long nowMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1000000 + now.getNano() / 1000;
    }

    private static void readTwice(Path path) throws Exception {
        reader.lock();
        String before = Files.readString(path);
        Thread.sleep(0, 300000);
        if (!Files.readString(path).equals(before)) {
            System.out.println("torn");
        }
        reader.unlock();
    }

    private static void giveUnlessLost() {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException lost) {
            System.out.println("lost");
        }
    }

    private static RLock choose(RedissonClient client, String name, String kind) {
        if (kind.startsWith("fenced")) {
            return client.getFencedLock(name);
        }
        if (kind.startsWith("rw")) {
            reader = client.getReadWriteLock(name).readLock();
        }
        if (kind.startsWith("rw") || kind.startsWith("write")) {
            return client.getReadWriteLock(name).writeLock();
        }
        return kind.startsWith("read") ? client.getReadWriteLock(name).readLock() : client.getLock(name);
    }

    private static void contend(long seconds, Path path) throws Exception {
        long done = 0;
        long end = System.nanoTime() + seconds * 1000000000L;
        for (long turn = 1; System.nanoTime() < end; turn++) {
            if (reader != null && turn % 3 == 0) {
                readTwice(path);
                continue;
            }
            long token = take();
            String[] words = Files.readString(path).trim().split(" ");
            long last = Long.parseLong(words[1]);
            if (token != 0 && token <= last) {
                System.out.println("torn");
            }
            Thread.sleep(0, 100000);
            Files.writeString(path, (Long.parseLong(words[0]) + 1) + " " + (token == 0 ? last : token) + "\n");
            done++;
            lock.unlock();
        }
        System.out.println(done);
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[1])
            .setConnectionMinimumIdleSize(1).setConnectionPoolSize(4)
            .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(2);
        config.setThreads(2).setNettyThreads(2);
        RedissonClient client = Redisson.create(config);
        brief = args[3].endsWith("brief");
        lock = choose(client, args[2], args[3]);
        switch (args[0]) {
        case "contend":
            contend(Long.parseLong(args[4]), Path.of(args[5]));
            break;
        case "hold":
            take();
            System.out.println("held");
            while (!Files.exists(Path.of(args[4]))) {
                Thread.sleep(2);
            }
            System.out.println(nowMicros());
            giveUnlessLost();
            break;
        case "force":
            lock.forceUnlock();
            System.out.println(nowMicros());
            break;
        default:
            System.out.println("waiting");
            take();
            System.out.println(nowMicros());
            lock.unlock();
            break;
        }
        client.shutdown();
    }
}
