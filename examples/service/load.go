package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// lives are what happens to orders, the usual thing first. The last one is a mistake of the sender.
var lives = [][]string{
	{"created", "paid", "shipped"}, {"created", "cancelled"}, {"created", "paid", "cancelled"}, {"created", "shipped", "paid", "shipped"},
}

// load sends events of orders until ctx ends, so many a second, as a shop would: most orders go well, some come twice,
// a few make no sense.
func load(ctx context.Context, url string, perSecond int) {
	if perSecond <= 0 {
		<-ctx.Done()
		return
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	events := make(chan func(), 100)
	var senders sync.WaitGroup
	for range 32 {
		senders.Go(func() {
			for send := range events {
				send()
			}
		})
	}
	defer senders.Wait()
	defer close(events)
	run := rand.Uint32()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	budget := 0
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for budget += max(perSecond/10, 1); budget > 0; n++ {
			life := lives[0]
			if rand.IntN(10) == 0 {
				life = lives[rand.IntN(len(lives))]
			}
			budget -= len(life)
			id := fmt.Sprintf("%08x-%d", run, n)
			select {
			case events <- func() { live(ctx, client, url, id, life) }:
			case <-ctx.Done():
				return
			}
		}
	}
}

// live sends the events of one order, one after the other.
func live(ctx context.Context, client *http.Client, url, id string, kinds []string) {
	for i, kind := range kinds {
		e := event{Kind: kind}
		if kind == "created" {
			e.Cents = 100 + rand.IntN(10_000)
		}
		for !send(ctx, client, url+"/orders/"+id, e, strconv.Itoa(i)) {
			if ctx.Err() != nil {
				return
			}
		}
		if rand.IntN(100) == 0 { // an answer was lost, so it comes again
			send(ctx, client, url+"/orders/"+id, e, strconv.Itoa(i))
		}
	}
}

// send sends one event, and waits when it is told to. False: it has to be sent again.
func send(ctx context.Context, client *http.Client, url string, e event, key string) bool {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // an event is text and a number
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		slog.Error("no request", "error", err)
		return true
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return true
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		seconds = 1
	}
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-ctx.Done():
	}
	return false
}
