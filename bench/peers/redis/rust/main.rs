// SPDX-License-Identifier: Apache-2.0

// rslock: see ../run for what each program is asked.
use rslock::{Lock, LockManager};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

async fn take(m: &LockManager, name: &str) -> Lock {
    m.lock(name.as_bytes(), Duration::from_secs(30)).await.expect("lock")
}

async fn pairs(m: &LockManager, count: i64) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        let lock = take(m, "pairs").await;
        m.unlock(&lock).await;
    }
    start.elapsed().as_nanos() as f64 / 1e3 / count as f64
}

async fn names(m: &LockManager, seconds: u64) -> f64 {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let mut all = vec![];
    for i in 0..64 {
        let (m, stop, done) = (m.clone(), stop.clone(), done.clone());
        all.push(tokio::spawn(async move {
            let name = format!("names-{i}");
            while !stop.load(SeqCst) {
                let lock = take(&m, &name).await;
                m.unlock(&lock).await;
                done.fetch_add(1, SeqCst);
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (before, start) = (done.load(SeqCst), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let rate = (done.load(SeqCst) - before) as f64 / start.elapsed().as_secs_f64();
    stop.store(true, SeqCst);
    for one in all {
        one.await.expect("task");
    }
    rate
}

fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("clock").as_micros() as i64
}

async fn grab(m: &LockManager, name: &str, seconds: u64, hold_us: u64, path: &str) -> (u64, i64) {
    let file = File::options().read(true).write(true).create(true).open(path).expect("file");
    let me = std::process::id() as i64;
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut passed, mut count) = (vec![], 0);
    while Instant::now() < end {
        let asked = now_us();
        let lock = take(m, name).await;
        let now = now_us();
        let mut note = [0u8; 16];
        let _ = file.read_at(&mut note, 0);
        let last = i64::from_le_bytes(note[..8].try_into().unwrap());
        let ended = i64::from_le_bytes(note[8..].try_into().unwrap());
        if last != me {
            count += 1;
            if asked < ended {
                passed.push(now - ended);
            }
        }
        if hold_us > 0 {
            tokio::time::sleep(Duration::from_micros(hold_us)).await;
        }
        note[..8].copy_from_slice(&me.to_le_bytes());
        note[8..].copy_from_slice(&now_us().to_le_bytes());
        file.write_at(&note, 0).expect("note");
        m.unlock(&lock).await;
        if hold_us > 0 {
            tokio::time::sleep(Duration::from_micros(hold_us / 2)).await;
        }
    }
    passed.sort();
    (count, if passed.is_empty() { -1 } else { passed[passed.len() / 2] })
}

async fn answer(a: Vec<String>) {
    let mut m = LockManager::new(vec![format!("redis://{}/", a[2])]);
    m.set_retry(u32::MAX, Duration::from_millis(200)); // its own pause, but as often as it takes
    match a[3].as_str() {
        "pairs" => {
            let count = a[4].parse().unwrap();
            pairs(&m, count / 4).await;
            println!("{:.2}", pairs(&m, count).await);
        }
        "names" => println!("{:.0}", names(&m, a[4].parse().unwrap()).await),
        _ => {
            let (seconds, hold) = (a[5].parse().unwrap(), a[6].parse().unwrap());
            let (count, us) = grab(&m, &a[4], seconds, hold, &a[7]).await;
            println!("{count} {us}");
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(answer(std::env::args().collect())).await.unwrap() });
}
