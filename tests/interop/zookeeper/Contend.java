// SPDX-License-Identifier: Apache-2.0
// Curator's locks, for run and bench. All three programs of this folder take the same arguments:
//
//   contend HOSTS PATH KIND SECONDS FILE   adds 1 to the number in FILE under the lock, for so long
//   pairs HOSTS PATH KIND COUNT            takes and gives back so often: the median, in us
//   grab HOSTS PATH KIND SECONDS           takes and gives back for so long: how often
//
// KIND: mutex, write, read. A reader looks at the number twice and complains if it has changed.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

class Contend {
    static InterProcessLock lockOf(CuratorFramework client, String path, String kind) {
        switch (kind) {
        case "write":
            return new InterProcessReadWriteLock(client, path).writeLock();
        case "read":
            return new InterProcessReadWriteLock(client, path).readLock();
        default:
            return new InterProcessMutex(client, path);
        }
    }

    static long read(Path file) throws Exception {
        return Long.parseLong(Files.readString(file).trim());
    }

    static long contend(InterProcessLock lock, String kind, long seconds, Path file)
            throws Exception {
        long done = 0, end = System.nanoTime() + seconds * 1_000_000_000L;
        while (System.nanoTime() < end) {
            lock.acquire();
            long value = read(file);
            Thread.sleep(1);
            if (!kind.equals("read")) {
                Files.writeString(file, (value + 1) + "\n");
                done++;
            } else if (read(file) != value) {
                System.out.println("torn");
            }
            lock.release();
        }
        return done;
    }

    static double pairs(InterProcessLock lock, int count) throws Exception {
        double[] each = new double[count];
        for (int i = -count; i < count; i++) { // the first half warms up
            long start = System.nanoTime();
            lock.acquire();
            lock.release();
            if (i >= 0) {
                each[i] = (System.nanoTime() - start) / 1e3;
            }
        }
        Arrays.sort(each);
        return each[count / 2];
    }

    static long grab(InterProcessLock lock, long seconds) throws Exception {
        long done = 0, end = System.nanoTime() + seconds * 1_000_000_000L;
        while (System.nanoTime() < end) {
            lock.acquire();
            lock.release();
            done++;
        }
        return done;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            args[1], 10000, 5000, new ExponentialBackoffRetry(100, 10));
        client.start();
        client.blockUntilConnected();
        InterProcessLock lock = lockOf(client, args[2], args[3]);
        long number = Long.parseLong(args[4]);
        switch (args[0]) {
        case "contend":
            System.out.println(contend(lock, args[3], number, Path.of(args[5])));
            break;
        case "pairs":
            System.out.println(pairs(lock, (int) number));
            break;
        default:
            System.out.println(grab(lock, number));
            break;
        }
        client.close();
    }
}
