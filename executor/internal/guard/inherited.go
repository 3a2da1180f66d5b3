package guard

import (
	"context"
	"sync/atomic"
)

// Inherited is a context that has the values of another one, which comes later, and nothing else of it.
type Inherited struct {
	context.Context
	from atomic.Pointer[context.Context]
}

// From gives it the values of ctx, which has to be guarded.
func (i *Inherited) From(ctx context.Context) { i.from.Store(new(context.WithoutCancel(ctx))) }

// Value implements [context.Context].
func (i *Inherited) Value(key any) any {
	if from := i.from.Load(); from != nil {
		return (*from).Value(key)
	}
	return nil
}
