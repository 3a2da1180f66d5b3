package actor_test

import (
	"log/slog"
	"testing"

	proto "github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
)

// BenchmarkSend takes the time of one message from Send to receive, beside
// protoactor-go alone. busy: one goroutine sends as fast as it can, so the actor
// rarely sleeps. idle: each message is awaited, so every one of them wakes the
// actor, unless SendHere handles it at once.
func BenchmarkSend(b *testing.B) {
	for _, load := range []struct {
		name   string
		stride int // messages from one wait of the sender to the next
	}{{"busy", 64}, {"idle", 1}} {
		b.Run(load.name+"/strand", func(b *testing.B) {
			system := actor.New(actor.Config{})
			meter := newMeter(load.stride)
			ref, err := actor.Spawn(system, "meter", meter.receive)
			require.NoError(b, err)
			meter.run(b, func(m *message) { ref.Send(m) })
			require.NoError(b, system.Stop(b.Context()))
		})
		b.Run(load.name+"/here", func(b *testing.B) {
			system := actor.New(actor.Config{})
			meter := newMeter(load.stride)
			ref, err := actor.Spawn(system, "meter", meter.receive)
			require.NoError(b, err)
			meter.run(b, func(m *message) { ref.SendHere(m) })
			require.NoError(b, system.Stop(b.Context()))
		})
		b.Run(load.name+"/protoactor", func(b *testing.B) {
			system := newProto()
			meter := newMeter(load.stride)
			pid := system.Root.Spawn(proto.PropsFromFunc(func(ctx proto.Context) {
				if m, ok := ctx.Message().(*message); ok {
					meter.receive(m)
				}
			}))
			meter.run(b, func(m *message) { system.Root.Send(pid, m) })
			require.NoError(b, system.Root.PoisonFuture(pid).Wait())
		})
	}
}

// newProto is protoactor-go as it comes, without its log.
func newProto() *proto.ActorSystem {
	return proto.NewActorSystem(proto.WithLoggerFactory(func(*proto.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}

type message struct{ n int }

// meter bounds how far the sender gets ahead of the actor; else the growth of the
// mailbox would be measured. It counts in strides, so that its channel costs little
// of what is measured.
type meter struct {
	stride   int
	received int
	credit   chan struct{}
}

func newMeter(stride int) *meter {
	return &meter{stride: stride, credit: make(chan struct{}, stride)}
}

func (m *meter) receive(*message) {
	if m.received++; m.received%m.stride == 0 {
		m.credit <- struct{}{}
	}
}

func (m *meter) run(b *testing.B, send func(*message)) {
	b.ReportAllocs()
	message, sent := new(message), 0
	ahead := min(m.stride, 32) // strides that may be under way
	for b.Loop() {
		send(message)
		if sent++; sent%m.stride == 0 {
			if ahead--; ahead <= 0 {
				<-m.credit
				ahead++
			}
		}
	}
}
