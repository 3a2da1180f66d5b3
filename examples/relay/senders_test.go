package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// senders send the webhooks of many customers, those of one in their order, each until the service has accepted it.
type senders struct {
	url      atomic.Pointer[string]
	accepted atomic.Int64
	lost     atomic.Int64 // calls without an answer, or with one of 500 and above
	all      sync.WaitGroup
}

// sending is how many webhooks are sent at a time.
const sending = 32

func (s *senders) begin(ctx context.Context, url string, each, customers int) {
	s.url.Store(&url)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: sending}}
	for g := range sending {
		var order []int // customers, as often as they have webhooks
		for customer := g; customer < customers; customer += sending {
			order = append(order, slices.Repeat([]int{customer}, each)...)
		}
		rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		s.all.Go(func() {
			number := map[int]int{}
			for _, customer := range order {
				number[customer]++
				s.send(ctx, client, fmt.Sprint("customer-", customer), number[customer])
			}
		})
	}
}

// send calls until the service has accepted, and now and then once more, or until ctx ends.
func (s *senders) send(ctx context.Context, client *http.Client, customer string, number int) {
	for again := rand.IntN(50) == 0; ; {
		status, err := post(ctx, client, *s.url.Load(), customer, strconv.Itoa(number), bodyOf(customer, number))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil || status >= 500:
			s.lost.Add(1)
			time.Sleep(rand.N(10 * time.Millisecond))
		case again:
			again = false
		default:
			s.accepted.Add(1)
			return
		}
	}
}

// bodyOf is what a webhook says: up to 500 bytes, of its own.
func bodyOf(customer string, number int) string {
	text := fmt.Sprintf("%s: %d\n", customer, number)
	return strings.Repeat(text, 1+number%30)
}

func post(ctx context.Context, client *http.Client, url, customer, key, body string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/webhooks/"+customer, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
