package browsertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// rises returns how many pixels the line of a colour goes up and down in a chart.
func (b *tab) rises(chart, colour string) (pixels int) {
	b.t.Helper()
	b.run(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const c = document.querySelector("[data-chart=%s] canvas");
		if (!c) return 0;
		const line = getComputedStyle(document.documentElement).getPropertyValue(%q).trim();
		const rgb = [1, 3, 5].map((i) => parseInt(line.slice(i, i + 2), 16));
		const copy = window.copied ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		[copy.canvas.width, copy.canvas.height] = [c.width, c.height];
		copy.drawImage(c, 0, 0);
		const { data, width } = copy.getImageData(0, 0, c.width, c.height);
		let top = 1e9, bottom = -1;
		for (let i = 0; i < data.length; i += 4) {
			if (data[i + 3] < 128 || rgb.some((v, k) => Math.abs(v - data[i + k]) > 24)) continue;
			const y = Math.floor(i / 4 / width);
			top = Math.min(top, y);
			bottom = Math.max(bottom, y);
		}
		return Math.max(bottom - top, 0);
	})()`, chart, colour), &pixels))
	return pixels
}

// The chart of what is processed and failed is drawn while it happens: both lines rise.
func TestDashboard_L22_TheLiveChart(t *testing.T) {
	x, q := open(t, "orders", func(_ context.Context, job executor.Job[string]) error {
		if job.Payload == "fails" {
			return errors.New("boom")
		}
		return nil
	})
	require.NoError(t, x.Start(t.Context()))
	b := show(t, x, dashboard.Config{})
	b.open("")
	b.until("#pulse", "live")
	b.until(".chart figcaption", "processed")
	b.until(".chart figcaption", "failed")
	for i := 0; b.rises("rate", "--series-a") < 10 || b.rises("rate", "--series-b") < 10; i++ {
		for each := range 3 { // or one line hides the other
			enqueue(t, q, fmt.Sprint("done-", i, each), "")
		}
		enqueue(t, q, fmt.Sprint("failed-", i), "fails")
		time.Sleep(20 * time.Millisecond) // the next look
	}
	b.calm()
}

// Each number of a queue that has a list is a link to it, and the list has that many rows.
func TestDashboard_L22_LinksToTheLists(t *testing.T) {
	held := make(chan struct{})
	x, _ := open(t, "others", nothing)
	q, err := executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
		switch job.Payload {
		case "dies":
			return executor.Cancel(errors.New("boom"))
		case "fails":
			return errors.New("boom")
		case "runs":
			<-held
		}
		return nil
	}, executor.QueueConfig[string]{
		RetryIn: func(int) time.Duration { return time.Hour },
		Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: func(id, _ string) []string {
				if id == "blocked" {
					return []string{"key"}
				}
				return nil
			}},
		},
	})
	require.NoError(t, err)
	require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
	enqueue(t, q, "blocked", "")
	for payload, n := range map[string]int{"dies": 1, "fails": 3, "runs": 2, "later": 3} {
		for i := range n {
			due := executor.In(0)
			if payload == "later" {
				due = executor.In(time.Hour)
			}
			enqueue(t, q, fmt.Sprint(payload, "-", i), payload, due)
		}
	}
	require.NoError(t, x.Start(t.Context()))
	defer close(held)
	want := map[string]int{"waiting": 7, "fresh": 6, "retrying": 3, "running": 2, "parked": 1, "halted": 0, "morgue": 1}
	numbers := map[string]int{"waiting": 9} // Enqueued: those that wait, and the two that run
	require.Eventually(t, func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Retrying == 3 && s.Dead == 1 && s.Running == 2 && s.Parked == 1
	}, patience, 10*time.Millisecond)
	b := show(t, x, dashboard.Config{})
	for list, n := range want {
		b.open("")
		link := fmt.Sprintf(`#queues tbody td a[href$="name=orders&tab=%s"]`, list)
		b.until(link, strconv.Itoa(cmp.Or(numbers[list], n)))
		_, err := chromedp.RunResponse(b.ctx, chromedp.Click(link, chromedp.ByQuery))
		require.NoError(t, err, list)
		b.until("h1", "orders")
		b.until(".tabs [aria-current] .count", strconv.Itoa(n))
		require.Equal(t, n, b.count("#list tbody tr"), list)
	}
	b.calm()
}
