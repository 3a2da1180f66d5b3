package fleet

import (
	"bytes"
	"encoding/gob"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
)

// What another process writes that knows nothing of those before is read as well, and it reads what is
// written here; a message is the same the first time and later.
func TestMessagesStandAlone(t *testing.T) {
	score := 0.5
	first := &Question{Do: "Wait", Which: inspect.SelectIDs("queue", "\xff"), Score: &score, Metadata: map[string]string{"a": "b"}}
	for range 3 {
		b, err := Questions.Encode(first)
		require.NoError(t, err)
		read := new(Question)
		require.NoError(t, gob.NewDecoder(bytes.NewReader(b)).Decode(read))
		require.Equal(t, first, read)
		read, err = Questions.Decode(b)
		require.NoError(t, err)
		require.Equal(t, first, read)

		var alone bytes.Buffer
		require.NoError(t, gob.NewEncoder(&alone).Encode(first))
		require.Equal(t, alone.Bytes(), b)

		b, err = Questions.Encode(&Question{Delay: time.Second}) // nothing is left of the one before
		require.NoError(t, err)
		read, err = Questions.Decode(b)
		require.NoError(t, err)
		require.Equal(t, &Question{Delay: time.Second}, read)
	}
}

// Another version has other fields. What it describes is kept for some others only.
func TestMessagesOfOthers(t *testing.T) {
	type Answer struct{ Names, More []string }
	for i := range 3 * mostDescriptions {
		var b bytes.Buffer
		if i%2 == 0 {
			require.NoError(t, gob.NewEncoder(&b).Encode(Answer{Names: []string{"a"}}))
			_, err := Answers.Decode(b.Bytes())
			require.ErrorIs(t, err, inspect.ErrInvalidQuery) // More is a number here
			continue
		}
		type Answer struct {
			Names []string
			News  map[string]int
		}
		require.NoError(t, gob.NewEncoder(&b).Encode(Answer{[]string{"a"}, map[string]int{"b": i}}))
		described := bytes.Replace(b.Bytes(), []byte("News"), []byte("N"+strconv.Itoa(100+i)), 1)
		for range 2 {
			a, err := Answers.Decode(described)
			require.NoError(t, err)
			require.Equal(t, []string{"a"}, a.Names)
		}
		require.LessOrEqual(t, len(Answers.readers), mostDescriptions)
	}
}

func FuzzDecode(f *testing.F) {
	for _, q := range []*Question{{}, {Do: "Wait", Payload: []byte{1}}} {
		b, err := Questions.Encode(q)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte{0xf7, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		want := new(Question)
		wrong := gob.NewDecoder(bytes.NewReader(b)).Decode(want)
		for range 2 {
			q, err := Questions.Decode(b)
			require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
			if err == nil {
				require.Equal(t, []any{want.Do, want.Payload, want.Metadata}, []any{q.Do, q.Payload, q.Metadata}) // no NaN is there
			}
		}
	})
}
