package fleet

import (
	"bytes"
	"encoding/gob"
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

// Another version has other fields, and what a message describes is of that message.
func TestMessagesOfOthers(t *testing.T) {
	type Question struct {
		Do   string
		News map[string]int
	}
	type Answer struct{ Names, More []string }
	for range 3 {
		var b bytes.Buffer
		require.NoError(t, gob.NewEncoder(&b).Encode(Question{"Wait", map[string]int{"a": 1}}))
		q, err := Questions.Decode(b.Bytes())
		require.NoError(t, err)
		require.Equal(t, "Wait", q.Do)
		b.Reset()
		require.NoError(t, gob.NewEncoder(&b).Encode(Answer{Names: []string{"a"}, More: []string{"b"}}))
		_, err = Answers.Decode(b.Bytes())
		require.ErrorIs(t, err, inspect.ErrInvalidQuery) // More is a number here
	}
}

// Whatever somebody sends, what is ours is read behind it.
func FuzzDecode(f *testing.F) {
	ours, err := Questions.Encode(&Question{Do: "Wait", Payload: []byte{1}})
	require.NoError(f, err)
	f.Add(ours)
	f.Add(append(bytes.Clone(Questions.description), ours...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, append(bytes.Clone(Questions.description), b...)} {
			_, _ = Questions.Decode(b)
			q, err := Questions.Decode(ours)
			require.NoError(t, err)
			require.Equal(t, &Question{Do: "Wait", Payload: []byte{1}}, q)
		}
	})
}
