// SPDX-License-Identifier: Apache-2.0
// The concurrency package of etcd's own client, as a peer of snib.
//
//	peer count ENDPOINT NAME FILE ROUNDS    add one to the number in FILE, ROUNDS times, under NAME
//	peer lock ENDPOINT NAME                 lock and unlock, a pair per line of stdin; "ok" each
//	peer bench ENDPOINT ROUNDS              microseconds per lock and unlock, session open
//	peer contend ENDPOINT WORKERS SECONDS   hand-overs per second of that many clients
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func connect(endpoint string) (*clientv3.Client, *concurrency.Session) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
	must(err)
	return client, session
}

func number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	must(err)
	return n
}

func count(session *concurrency.Session, name, file string, rounds int) {
	ctx := context.Background()
	for i := 0; i < rounds; i++ {
		mutex := concurrency.NewMutex(session, name)
		must(mutex.Lock(ctx))
		text, err := os.ReadFile(file)
		must(err)
		must(os.WriteFile(file, []byte(fmt.Sprintln(number(string(text))+1)), 0o644))
		must(mutex.Unlock(ctx))
	}
}

func bench(session *concurrency.Session, rounds int) {
	ctx := context.Background()
	took := make([]float64, rounds)
	for i := range took {
		mutex := concurrency.NewMutex(session, "bench-go")
		start := time.Now()
		must(mutex.Lock(ctx))
		must(mutex.Unlock(ctx))
		took[i] = float64(time.Since(start).Nanoseconds()) / 1000
	}
	sort.Float64s(took)
	fmt.Printf("%.0f\n", took[rounds/2])
}

func contend(endpoint string, workers, seconds int) {
	var all sync.WaitGroup
	var grants atomic.Int64
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := 0; i < workers; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			client, session := connect(endpoint)
			defer client.Close()
			for time.Now().Before(end) {
				mutex := concurrency.NewMutex(session, "bench-go-contended")
				must(mutex.Lock(context.Background()))
				grants.Add(1)
				must(mutex.Unlock(context.Background()))
			}
		}()
	}
	all.Wait()
	fmt.Printf("%d\n", grants.Load()/int64(seconds))
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: peer count|lock|bench|contend ENDPOINT ...")
	}
	endpoint := os.Args[2]
	if os.Args[1] == "contend" {
		contend(endpoint, number(os.Args[3]), number(os.Args[4]))
		return
	}
	client, session := connect(endpoint)
	defer client.Close()
	defer session.Close()
	switch os.Args[1] {
	case "count":
		count(session, os.Args[3], os.Args[4], number(os.Args[5]))
	case "bench":
		bench(session, number(os.Args[3]))
	case "lock":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			mutex := concurrency.NewMutex(session, os.Args[3])
			must(mutex.Lock(context.Background()))
			must(mutex.Unlock(context.Background()))
			fmt.Println("ok")
		}
	}
}
