package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

func TestOverview(t *testing.T) {
	x := open(t, executor.Config{Workers: 3})
	q := queue(t, x, "orders", nil, executor.QueueConfig[string]{})
	enqueue(t, q, "a", "1")
	enqueue(t, q, "b", "1")
	text := mount(t, x, dashboard.Config{}).get("")
	require.Contains(t, text, `<a href="queue?name=orders">`)
	require.Contains(t, text, `>Enqueued</dt><dd data-live="enqueued">2</dd>`)
	require.Contains(t, text, `data-live="busy">0 / `)
}
