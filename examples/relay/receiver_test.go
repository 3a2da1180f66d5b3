package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// unwritten is how old an answer may be when the process is killed, for the webhook to come again: a result is on disk
// within milliseconds, if the disk has no other work.
const unwritten = time.Second

// receiver is where webhooks are delivered to. It refuses one of twenty, and judges what it sees of each customer,
// whose webhooks are numbered from 1 on:
//
//   - in a life of the service they come one by one, each until it is taken, with none left out and none twice;
//   - the first of a life is the one after those that were taken in earlier lives, or one that was taken in the last
//     moment of a life that was killed.
type receiver struct {
	mu        sync.Mutex
	customers map[string]*customer
	died      []time.Time // when each life was killed; zero: it stopped
	taken     int
	refused   int
	again     []int         // taken a second time, by life in which they were taken first
	oldest    time.Duration // of the answers to these, when the process was killed
	broken    []string
}

type customer struct {
	taken []answered // by number
	life  int        // of the last request
	next  int        // number that has to come in this life
	busy  bool
}

type answered struct {
	life int
	at   time.Time
}

func newReceiver() *receiver {
	return &receiver{customers: map[string]*customer{}, died: []time.Time{{}}, again: []int{0}}
}

// begin returns a server for the next life. It hears nothing of others.
func (r *receiver) begin() *httptest.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	life := len(r.died)
	r.died, r.again = append(r.died, time.Time{}), append(r.again, 0)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		name := request.URL.Query().Get("customer")
		number, err := strconv.Atoi(request.Header.Get("Idempotency-Key"))
		body, err2 := io.ReadAll(request.Body)
		switch {
		case err != nil:
			r.complain("life %d: a webhook of %s without a number: %v", life, name, err)
		case err2 == nil && string(body) != bodyOf(name, number): // an error: the service has just been killed
			r.complain("life %d: webhook %d of %s says %q", life, number, name, body)
		case err2 == nil:
			w.WriteHeader(r.take(life, name, number))
		}
	}))
}

// kill is called before the process is killed.
func (r *receiver) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.died[len(r.died)-1] = time.Now()
}

func (r *receiver) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

// take judges a request and returns the status of the answer.
func (r *receiver) take(life int, name string, number int) (status int) {
	leave := r.enter(life, name, number)
	time.Sleep(rand.N(time.Millisecond))
	return leave(rand.IntN(20) > 0)
}

// enter judges what comes. What it returns gives the answer, and has to be called.
func (r *receiver) enter(life int, name string, number int) (leave func(take bool) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.customers[name]
	if c == nil {
		c = &customer{taken: make([]answered, 1)}
		r.customers[name] = c
	}
	came := fmt.Sprintf("life %d: webhook %d of %s came", life, number, name)
	switch before := len(c.taken) - 1; {
	case c.busy && c.life == life:
		r.broken = append(r.broken, came+" beside another one")
	case c.life == life && number != c.next:
		r.broken = append(r.broken, fmt.Sprintf("%s, and it was the turn of %d", came, c.next))
	case number > before+1:
		r.broken = append(r.broken, fmt.Sprintf("%s, and %d were taken", came, before))
	case number <= before:
		first := c.taken[number]
		age := r.died[first.life].Sub(first.at)
		switch {
		case r.died[first.life].IsZero():
			r.broken = append(r.broken, fmt.Sprintf("%s, and was taken in life %d, which was not killed", came, first.life))
		case age > unwritten:
			r.broken = append(r.broken, fmt.Sprintf("%s, and was taken in life %d, %v before that was killed", came, first.life, age))
		}
		r.oldest = max(r.oldest, age)
		r.again[first.life]++
	}
	c.life, c.next, c.busy = life, number, true
	return func(take bool) int {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.busy = false
		if !take {
			r.refused++
			return http.StatusInternalServerError
		}
		c.next++
		now := answered{life, time.Now()}
		if number < len(c.taken) {
			c.taken[number] = now
		} else {
			c.taken = append(c.taken, now)
			r.taken++
		}
		return http.StatusOK
	}
}

// progress returns how many webhooks have arrived.
func (r *receiver) progress() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// verdict returns what has gone wrong, as far as it is seen.
func (r *receiver) verdict() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.broken[:min(len(r.broken), 20)], "\n")
}
