package admin_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admin"
)

type inner struct {
	Queue, ID string
	Jobs      int           `wire:"length"`
	Age       time.Duration // so
	Lag       time.Duration `wire:"lag"`
	Secret    string        `wire:"-"`
	hidden    int
	Any       any
}

type held struct {
	Keys  []string `wire:",each=key"`
	Slots []int
}

type outer struct {
	inner
	Jobs     []string `wire:"length"` // in place of the inner one
	Raw      []byte   `wire:"payload"`
	Holds    held     `wire:",inline"`
	By       string   `wire:",owner"`
	Called   []string `wire:",owner"`
	At, Due  time.Time
	Score    float64
	Why      error `wire:"decode_error"`
	More     *inner
	Limit    int `wire:",omit"`
	Metadata map[string]string
	PausedBy *held
}

func full() outer {
	return outer{
		inner: inner{Queue: "orders", ID: "a\xff<>", Jobs: 3, Age: 1500 * time.Millisecond, Lag: -time.Millisecond, Secret: "s", hidden: 1, Any: 1},
		Jobs:  []string{"x", "\xfe"}, Raw: []byte{}, Holds: held{Keys: []string{"k", "\xff"}}, By: `orders/"a\xff"`, Called: []string{"a person"},
		At: time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600)), Score: math.Inf(1), Why: errors.New("boom"),
		More: &inner{Age: 292 * 365 * 24 * time.Hour}, Metadata: map[string]string{"b": "1", "a": "\xff"},
	}
}

func TestTheJSON(t *testing.T) {
	text, err := admin.Encode(full())
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"queue": "orders", "id": {"base64": "Yf88Pg=="}, "age_seconds": 1.5, "lag": -0.001,
		"length": ["x", {"base64": "/g=="}], "payload": "", "keys": [{"key": "k"}, {"key": {"base64": "/w=="}}], "slots": [],
		"by": {"name": "orders/\"a\\xff\"", "job": {"queue": "orders", "id": {"base64": "Yf8="}}}, "called": [{"name": "a person"}],
		"at": "2026-01-02T02:04:05.0000006Z", "score": "+Inf", "decode_error": "boom",
		"more": {"queue": "", "id": "", "length": 0, "age_seconds": 9208512000, "lag": 0}, "metadata": {"a": {"base64": "/w=="}, "b": "1"}
	}`, string(text))
	line, err := admin.Line("job", held{})
	require.NoError(t, err)
	assert.Equal(t, `{"type":"job","keys":[],"slots":[]}`+"\n", string(line))
	line, err = admin.Line("none", struct{}{})
	require.NoError(t, err)
	assert.Equal(t, `{"type":"none"}`+"\n", string(line))
	_, err = admin.Encode(make(chan int))
	require.Error(t, err)
}

func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	want := full()
	text, err := admin.Encode(want)
	require.NoError(t, err)
	var got outer
	require.NoError(t, admin.Decode(text, &got))
	want.inner.Jobs, want.Secret, want.hidden, want.Any = 0, "", 0, nil // which JSON does not have
	want.At, want.Holds.Slots, want.More.Queue = want.At.UTC(), []int{}, ""
	assert.Equal(t, want, got)
}

// A duration is written without loss, and read so: also the longest one, which means for ever.
func TestEveryDurationIsReadAsItWasWritten(t *testing.T) {
	for _, d := range []time.Duration{0, 1, -1, time.Second - 1, -time.Second - 1, 200*24*time.Hour + 1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1} {
		text, err := admin.Encode(inner{Age: d})
		require.NoError(t, err)
		var got inner
		require.NoError(t, admin.Decode(text, &got), string(text))
		require.Equal(t, d, got.Age, string(text))
	}
	for text, want := range map[string]time.Duration{"1e3": 1000 * time.Second, "0.0000000015": 2, "0.29999999999999998": 300 * time.Millisecond, "-0": 0} {
		var r request
		require.NoError(t, admin.Read([]byte(`{"for_seconds": `+text+`}`), &r))
		require.Equal(t, want, r.For, text)
	}
	for _, text := range []string{"9223372036.854775808", "-9223372036.854775809", "9223372037", "1e10"} {
		require.ErrorContains(t, admin.Read([]byte(`{"for_seconds": `+text+`}`), new(request)), "beyond", text)
	}
}

type request struct {
	Queue string `wire:",must"`
	On    bool   `wire:",must"`
	IDs   []string
	List  []inner
	For   time.Duration
}

func TestWhatARequestMayNotSay(t *testing.T) {
	var r request
	require.NoError(t, admin.Decode([]byte(`{"on": false, "queue": {"base64": "/w=="}, "list": [{"id": "a"}], "for_seconds": 0.25}`), &r))
	assert.Equal(t, request{Queue: "\xff", List: []inner{{ID: "a"}}, For: 250 * time.Millisecond}, r)
	for text, want := range map[string]string{
		``:                                          "ends too early",
		`[]`:                                        "must be an object",
		`{"queue": "q"`:                             "ends too early",
		`{"queue": "q", "on": true} {}`:             "more behind it",
		`{"queue": "q"}`:                            "on is missing",
		`{"queue": "q", "on": true, "x": 1}`:        `there is no field "x"`,
		`{"Queue": "q", "on": true}`:                `there is no field "Queue"`,
		`{"queue": "q", "queue": "p"}`:              "queue is there twice",
		`{"queue": null}`:                           "queue is null",
		`{"queue": 7}`:                              "queue is 7",
		`{"queue": {"base": "eA=="}}`:               "where a text should be",
		"{\"queue\": \"\xff\"}":                     "give its bytes",
		`{"queue": "\ud800"}`:                       "give its bytes",
		`{"queue": {}}`:                             "where a text should be",
		`{"queue": {"base64": "?"}}`:                "queue is",
		`{"on": 1}`:                                 "on is 1",
		`{"ids": 7}`:                                "must be a list",
		`{"ids": [null]}`:                           "one of ids is null",
		`{"list": [{"id": "a", "none": 1}]}`:        `there is no field "none"`,
		`{"list": [{"id": "a", "id": "b"}]}`:        "id is there twice",
		`{"for_seconds": 1e99}`:                     "beyond",
		`{"for_seconds": "1"}`:                      "for_seconds is",
		`{"queue": "q", "on": true, "secret": "s"}`: "there is no field",
	} {
		err := admin.Decode([]byte(text), new(request))
		require.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{"{\"queue\": \"\uFFFD\", \"on\": true}", `{"queue": "\ufffd", "on": true}`} {
		require.NoError(t, admin.Decode([]byte(text), &r))
		require.Equal(t, "\uFFFD", r.Queue, "it is what was said")
	}
	require.NoError(t, admin.Read([]byte(`{"queue": "q", "later": {"than": "this"}}`), &r), "an answer may get fields")
	require.ErrorContains(t, admin.Read([]byte(`{"queue": "q", "queue": "p"}`), &r), "twice")
}

func TestJobOf(t *testing.T) {
	for name, want := range map[string][2]string{
		"orders/17": {"orders", "17"}, `"a/b"/c`: {"a/b", "c"}, `a/"\xff"`: {"a", "\xff"}, "a/b/c": {"a", "b/c"},
	} {
		queue, id, ok := admin.JobOf(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, [2]string{queue, id})
	}
	for _, name := range []string{"a person", `"a"b`, `a/"b`} {
		_, _, ok := admin.JobOf(name)
		assert.False(t, ok, name)
	}
}
