package executor_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// What would be larger than a payload may be is as many payloads as it takes.
func TestFoldTooLarge(t *testing.T) {
	for _, n := range []int{100, 2000} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: 1000}})
			p := &probe{}
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}})
			var want []string
			for i := range n {
				want = append(want, fmt.Sprint(i))
				enqueue(t, q, "a", want[i])
			}
			synctest.Wait()
			start(t, x)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, strings.Join(want, "+"), strings.Join(p.of("a"), "+"))
			require.Less(t, len(p.log()), n/20)
		})
	}
}

// What becomes too large is found where it does: the function is not called for all that
// waits, over and over, to find out where that is.
func TestFoldTooLargeIsFoundEarly(t *testing.T) {
	t.Parallel()
	slow(t)
	n, size, most := 1000, 2<<10, 64<<10
	if !pushed() {
		size, most = size/4, most/4
	}
	for where, ids := range map[string]int{"where it waits": 1, "by the worker": 4} { // 250 are too few to be folded before
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: most}})
				p := &probe{}
				var calls atomic.Int64
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{
					Fold: func(waiting, next string) (string, error) {
						calls.Add(1)
						return waiting + next, nil
					},
				}})
				want := make([]string, ids)
				for i := range n {
					payload := fmt.Sprintf("%0*d", size, i)
					want[i%ids] += payload
					enqueue(t, q, fmt.Sprint(i%ids), payload)
				}
				synctest.Wait()
				require.Equal(t, ids == 1, calls.Load() > 0, "called before there are workers")
				start(t, x)
				time.Sleep(time.Second)
				synctest.Wait()
				for i := range ids {
					require.Equal(t, want[i], strings.Join(p.of(fmt.Sprint(i)), ""))
				}
				require.LessOrEqual(t, len(p.log()), n/20)
				require.LessOrEqual(t, calls.Load(), int64(3*n))
			})
		})
	}
}
