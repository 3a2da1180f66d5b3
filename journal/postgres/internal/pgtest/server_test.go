//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// A port is none that a client's connection may get.
func TestPortsAreNotThoseOfClients(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	var first, last int
	_, err = fmt.Sscan(string(text), &first, &last)
	require.NoError(t, err)
	for range 200 {
		text, err := freePort()
		require.NoError(t, err)
		port, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.False(t, first <= port && port <= last, "%d is one of %d to %d", port, first, last)
	}
}

// A server that was killed comes back when another has held its port for a while, and is not
// taken for the other meanwhile.
func TestAServerComesBackToItsPort(t *testing.T) {
	s, other := Start(t), Start(t)
	s.Kill()
	other.Stop()
	other.port = s.port
	require.NoError(t, other.launch())
	ended := s.ended
	s.ended = make(chan struct{}) // as if it had not
	assert.False(t, s.answers(time.Now().Add(100*time.Millisecond), s.data()), "the other is taken for it")
	s.ended = ended
	time.AfterFunc(300*time.Millisecond, other.Stop)
	s.Restart(t)
	require.True(t, s.answers(time.Now().Add(patience), s.data()))
}
