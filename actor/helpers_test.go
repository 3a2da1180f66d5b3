package actor_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	proto "github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
)

// newSystem returns a System that is stopped when the test ends, and fails the test
// when protoactor-go ever had a message that it could not deliver or a failure to
// supervise.
func newSystem(t *testing.T, config actor.Config) *actor.System {
	t.Helper()
	system := actor.New(config)
	subscription := actor.Proto().EventStream.Subscribe(func(event any) {
		switch event := event.(type) {
		case *proto.DeadLetterEvent:
			t.Errorf("dead letter: %v", event)
		case *proto.SupervisorEvent:
			t.Errorf("supervised: %v", event)
		}
	})
	require.NotNil(t, subscription)
	t.Cleanup(func() {
		defer actor.Proto().EventStream.Unsubscribe(subscription)
		if err := system.Stop(context.WithoutCancel(t.Context())); system.Err() == nil {
			assert.NoError(t, err)
		}
	})
	return system
}

func spawn[M any](t *testing.T, system *actor.System, name string, receive func(M)) *actor.Ref[M] {
	t.Helper()
	ref, err := actor.Spawn(system, name, receive)
	require.NoError(t, err)
	return ref
}

// goroutines returns the stacks of those that run code of this package or of
// protoactor-go, tests left out.
func goroutines() []string {
	buffer := make([]byte, 1<<20)
	var found []string
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "actor.(*cell)") || strings.Contains(stack, "actor.(*System).report") ||
			strings.Contains(stack, "protoactor-go") {
			found = append(found, stack)
		}
	}
	return found
}
