package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/engine"
)

// When only some partitions have changed an offset, nobody is told that nothing has changed.
func TestPutOffsetInSomePartitions(t *testing.T) {
	why := errors.New("why")
	for name, test := range map[string]struct {
		said    []error
		unknown bool
	}{
		"all have":       {said: []error{nil, nil, nil}},
		"none has":       {said: []error{why, why, why}},
		"one has not":    {said: []error{nil, why, nil}, unknown: true},
		"one has":        {said: []error{why, why, nil}, unknown: true},
		"none may have":  {said: []error{why, fmt.Errorf("%w: %w", engine.ErrUnknown, why), why}, unknown: true},
		"one is unknown": {said: []error{nil, fmt.Errorf("%w: %w", engine.ErrUnknown, why), nil}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			as := &Asker{Partitions: len(test.said), Ask: func(_ context.Context, number int, _ string, _ []byte, _ bool) ([]byte, error) {
				answer, err := Answers.Encode(new(Answer))
				return answer, errors.Join(err, test.said[number])
			}}
			err := as.PutOffset(t.Context(), "set-offset", "s", 7)
			require.Equal(t, test.unknown, errors.Is(err, engine.ErrUnknown), err)
			require.Equal(t, errors.Join(test.said...) != nil, errors.Is(err, why), err)
		})
	}
}
