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

/** Redisson's locks, for run: see contend.c. KIND: lock, fenced; "brief" behind it makes leases of 2 s. */
public class Contend {
    private static RLock lock;
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

    private static void contend(long seconds, Path path) throws Exception {
        long done = 0;
        long end = System.nanoTime() + seconds * 1000000000L;
        while (System.nanoTime() < end) {
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
        lock = args[3].startsWith("fenced") ? client.getFencedLock(args[2]) : client.getLock(args[2]);
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
            lock.unlock();
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
