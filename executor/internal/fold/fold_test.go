package fold

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

var errX, errFails = errors.New("x"), errors.New("fails")

// joining joins texts. "x" does not decode, "!" fails, "exit" ends the goroutine.
var joining = Program[string]{
	Decode: func(payload []byte) (string, error) {
		switch string(payload) {
		case "x", "bad": // which only payloads become
			return "", errX
		case "exit":
			runtime.Goexit()
		}
		return string(payload), nil
	},
	Fold: func(waiting, next string) (string, error) {
		if next == "!" {
			return "", errFails
		}
		return waiting + next, nil
	},
	Encode: func(text string) ([]byte, error) { return []byte(text), nil },
}

func TestFold(t *testing.T) {
	errLarge := errors.New("too large")
	for name, test := range map[string]struct {
		data     []string
		skip     bool
		n        int
		payload  string
		bad      []int
		failures []string
	}{
		"all":                     {data: []string{"a", "b", "c"}, n: 3, payload: "abc"},
		"one":                     {data: []string{"a"}, n: 1},
		"up to one that fails":    {data: []string{"a", "b", "!", "c"}, n: 2, payload: "ab", failures: []string{"fails"}},
		"the second one fails":    {data: []string{"a", "!"}, n: 1, failures: []string{"fails"}},
		"up to what may decode":   {data: []string{"a", "b", "x", "c"}, n: 2, payload: "ab", failures: []string{"x"}},
		"without what never will": {data: []string{"a", "x", "b"}, skip: true, n: 3, payload: "ab", bad: []int{1}},
		"a goroutine that ends":   {data: []string{"a", "b", "exit"}, n: 2, payload: "ab", failures: []string{errExited.Error()}},
		"no payload":              {data: []string{"b", "a", "d"}, n: 2, payload: "ba", failures: []string{"x"}},
		"too large":               {data: []string{"1234", "5678", "9"}, n: 2, payload: "12345678", failures: []string{"too large: 3 payloads became one of 9 bytes, the limit is 8"}},
	} {
		t.Run(name, func(t *testing.T) {
			var failures []string
			f := New(Config{
				MaxBytes: 8, TooLarge: errLarge,
				Failed: func(id string, err error, why string) {
					require.Equal(t, "id", id)
					require.Error(t, err)
					failures = append(failures, why)
				},
			}, joining)
			var data [][]byte
			for _, s := range test.data {
				data = append(data, []byte(s))
			}
			p := f.fold("id", data, func(error) bool { return test.skip })
			require.Equal(t, fmt.Sprint(test.n, test.payload), fmt.Sprint(p.n, string(p.payload)))
			require.Equal(t, test.failures, failures)
			require.Len(t, p.bad, len(test.bad))
			for _, i := range test.bad {
				require.Equal(t, errX, p.bad[i])
			}
		})
	}
}

// What has had its turn is let go of, also by the list that it stood in.
func TestAFolderKeepsNothingThatHadItsTurn(t *testing.T) {
	f := New(Config{Go: func(func()) {}}, joining)
	var folds []weak.Pointer[shard.Fold]
	for i := range 100 {
		fold := &shard.Fold{ID: fmt.Sprint(i)}
		folds = append(folds, weak.Make(fold))
		f.Add(fold)
	}
	left := func() (n int) {
		runtime.GC()
		for _, p := range folds {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	for range 60 {
		require.NotNil(t, f.next())
	}
	require.Equal(t, 40, left())
	for range 40 {
		f.next()
	}
	require.Zero(t, left())
	runtime.KeepAlive(f)
}

// A call waits a second at most, of however many ids it brings payloads that are being folded; the next call does not wait.
func TestACallForManyIDsWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{Closing: make(chan struct{}), Go: func(func()) {}}, joining)
		var entries []journal.Entry
		for i := range 10 {
			id := fmt.Sprint(i)
			f.Add(&shard.Fold{ID: id})
			for range crowd + 1 {
				entries = append(entries, journal.Entry{ID: []byte(id)})
			}
		}
		for _, want := range []time.Duration{patience, 0} {
			began := time.Now()
			require.True(t, f.Admit(entries, func() <-chan struct{} { return nil }))
			require.Equal(t, want, time.Since(began))
		}
	})
}
