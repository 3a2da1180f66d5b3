package metrics

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/strandjobs/strand/executor"
)

const (
	maxLinks = 128 // that OpenTelemetry's limits have by default
	maxText  = 512 // bytes of an id or an error in a span
	maxIDs   = 16  // of jobs in a span

	// The limits of executor.Metadata.
	maxPairs = 16
	maxBytes = 1 << 10
)

// Trace is [executor.Metadata] with the pairs, and the span context of ctx. It is for
// [executor.Queue.FollowUp] and wherever the middleware is not; pairs may be nil, and
// is not changed.
func (m *Metrics) Trace(ctx context.Context, pairs map[string]string) executor.Option {
	all := make(map[string]string, len(pairs)+1)
	maps.Copy(all, pairs)
	if ctx != nil {
		m.safely(func() { m.inject(ctx, all) })
	}
	return executor.Metadata(all)
}

// inject writes the span context of ctx into metadata, if it fits.
func (m *Metrics) inject(ctx context.Context, metadata map[string]string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	added := propagation.MapCarrier{}
	m.propagator.Inject(ctx, added)
	together := maps.Clone(metadata)
	maps.Copy(together, added)
	bytes := 0
	for k, v := range together {
		bytes += len(k) + len(v)
	}
	if len(together) <= maxPairs && bytes <= maxBytes {
		maps.Copy(metadata, added)
	}
}

// links returns the spans that the payloads of a run come from, each once.
func (m *Metrics) links(run *executor.Run) (links []trace.Link) {
	type span struct {
		trace trace.TraceID
		span  trace.SpanID
	}
	seen := make(map[span]bool)
	for _, job := range run.Jobs {
		for _, p := range job.Payloads {
			if len(p.Metadata) == 0 {
				continue
			}
			from := trace.SpanContextFromContext(m.propagator.Extract(context.Background(), propagation.MapCarrier(p.Metadata)))
			of := span{from.TraceID(), from.SpanID()}
			if !from.IsValid() || seen[of] {
				continue
			}
			seen[of] = true
			if links = append(links, trace.Link{SpanContext: from}); len(links) == maxLinks {
				return links
			}
		}
	}
	return links
}

// opening returns the beginning of a text, as UTF-8.
func opening(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}

// utf8Of returns the name of a queue as UTF-8, in which names that differ still do, so
// that their figures do not become one.
func utf8Of(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[0])
		} else {
			b.WriteString(name[:n])
		}
		name = name[n:]
	}
	return b.String()
}
