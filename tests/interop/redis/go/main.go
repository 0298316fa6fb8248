// SPDX-License-Identifier: Apache-2.0

// redsync and redislock, for run: see contend.c.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return n
}

// taker answers a function that takes the lock and answers one that gives it back.
func taker(client *redis.Client, name, kind string, ttl time.Duration) func() func() {
	ctx := context.Background()
	if strings.HasPrefix(kind, "redislock") {
		locker := redislock.New(client)
		retry := redislock.LinearBackoff(5 * time.Millisecond)
		return func() func() {
			bound, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			lock, err := locker.Obtain(bound, name, ttl, &redislock.Options{RetryStrategy: retry})
			must(err)
			return func() { must(lock.Release(ctx)) }
		}
	}
	sync := redsync.New(goredis.NewPool(client))
	return func() func() {
		mutex := sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(100000),
			redsync.WithRetryDelay(5*time.Millisecond))
		must(mutex.Lock())
		return func() {
			_, err := mutex.Unlock()
			must(err)
		}
	}
}

func main() {
	way, port, name, kind := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ttl := 30 * time.Second
	if strings.HasSuffix(kind, "brief") {
		ttl = 2 * time.Second
	}
	take := taker(redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port}), name, kind, ttl)
	switch way {
	case "contend":
		done := 0
		end := time.Now().Add(time.Duration(number(os.Args[5])) * time.Second)
		for time.Now().Before(end) {
			give := take()
			text, err := os.ReadFile(os.Args[6])
			must(err)
			words := strings.Fields(string(text))
			time.Sleep(100 * time.Microsecond)
			must(os.WriteFile(os.Args[6], []byte(fmt.Sprintf("%d %s\n", number(words[0])+1, words[1])), 0600))
			done++
			give()
			time.Sleep(time.Millisecond)
		}
		fmt.Println(done)
	case "hold":
		give := take()
		fmt.Println("held")
		for _, err := os.Stat(os.Args[5]); err != nil; _, err = os.Stat(os.Args[5]) {
			time.Sleep(2 * time.Millisecond)
		}
		fmt.Println(time.Now().UnixMicro())
		give()
	default:
		fmt.Println("waiting")
		give := take()
		fmt.Println(time.Now().UnixMicro())
		give()
	}
}
