// SPDX-License-Identifier: Apache-2.0

// redislock and redsync: see ../run for what each program is asked.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

var ctx = context.Background()

type lock interface {
	take()
	give()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type mutex struct{ m *redsync.Mutex }

func (l mutex) take() { must(l.m.Lock()) }
func (l mutex) give() { _, err := l.m.Unlock(); must(err) }

// It has no pause of its own between tries: 100 ms, as in its examples.
type obtained struct {
	client *redislock.Client
	name   string
	l      *redislock.Lock
}

func (l *obtained) take() {
	options := redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	for {
		got, err := l.client.Obtain(ctx, l.name, ttl, &options)
		if err == nil {
			l.l = got
			return
		}
		if !errors.Is(err, redislock.ErrNotObtained) {
			must(err)
		}
	}
}
func (l *obtained) give() { must(l.l.Release(ctx)) }

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return n
}

func pairs(l lock, count int64) float64 {
	start := time.Now()
	for i := int64(0); i < count; i++ {
		l.take()
		l.give()
	}
	return float64(time.Since(start).Nanoseconds()) / 1e3 / float64(count)
}

func names(of func(string) lock, seconds int64) float64 {
	var done atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := 0; i < 64; i++ {
		l := of(fmt.Sprint("names-", i))
		all.Add(1)
		go func() {
			defer all.Done()
			for !stop.Load() {
				l.take()
				l.give()
				done.Add(1)
			}
		}()
	}
	time.Sleep(200 * time.Millisecond)
	before, start := done.Load(), time.Now()
	time.Sleep(time.Duration(seconds) * time.Second)
	rate := float64(done.Load()-before) / time.Since(start).Seconds()
	stop.Store(true)
	all.Wait()
	return rate
}

func grab(l lock, seconds int64, hold time.Duration, path string) (int, int64) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0600)
	must(err)
	var note [16]byte
	self := int64(os.Getpid())
	passed := []int64{}
	count := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		asked := time.Now().UnixMicro()
		l.take()
		now := time.Now().UnixMicro()
		file.ReadAt(note[:], 0)
		last := int64(binary.LittleEndian.Uint64(note[:8]))
		ended := int64(binary.LittleEndian.Uint64(note[8:]))
		if last != self {
			count++
			if asked < ended {
				passed = append(passed, now-ended)
			}
		}
		time.Sleep(hold)
		binary.LittleEndian.PutUint64(note[:8], uint64(self))
		binary.LittleEndian.PutUint64(note[8:], uint64(time.Now().UnixMicro()))
		_, err := file.WriteAt(note[:], 0)
		must(err)
		l.give()
		time.Sleep(hold / 2)
	}
	sort.Slice(passed, func(i, j int) bool { return passed[i] < passed[j] })
	if len(passed) == 0 {
		return count, -1
	}
	return count, passed[len(passed)/2]
}

func main() {
	kind, client := os.Args[1], redis.NewClient(&redis.Options{Addr: os.Args[2]})
	rs, rl := redsync.New(goredis.NewPool(client)), redislock.New(client)
	of := func(name string) lock {
		if kind == "redsync" {
			return mutex{rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))}
		}
		return &obtained{client: rl, name: name}
	}
	switch os.Args[3] {
	case "pairs":
		l, count := of("pairs"), number(os.Args[4])
		pairs(l, count/4)
		fmt.Printf("%.2f\n", pairs(l, count))
	case "names":
		fmt.Printf("%.0f\n", names(of, number(os.Args[4])))
	case "grab":
		hold := time.Duration(number(os.Args[6])) * time.Microsecond
		fmt.Println(grab(of(os.Args[4]), number(os.Args[5]), hold, os.Args[7]))
	}
}
