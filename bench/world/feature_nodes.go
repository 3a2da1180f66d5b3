package world

import (
	"errors"

	"github.com/strandjobs/strand/executor"
)

// Some ids belong to another process: they are refused here, and what is here goes on.
var dividing = &feature{
	name: "nodes", apart: true, claims: "Splitter.Nodes Splitter.Self Splitter.Owner",
	world:  func(d *draw, l line) { l.set("nodes", d.one("1", "2", "hash")) },
	config: func(w *world, cfg *executor.Config) { cfg.Splitter = w.splitter() },
	answered: func(w *world, _ *queue, _ line, mine []*item, _ []executor.Receipt, err error) {
		strange := 0
		for _, i := range mine {
			owner, failed := w.splitter().OwnerOf(i.id)
			if failed != nil || owner != 0 && err == nil {
				w.fail("split: %v was accepted by a process that it does not belong to, but to %d: %v", i, owner, failed)
			}
			strange += owner
		}
		if strange == 0 && errors.Is(err, executor.ErrNotOwned) {
			w.fail("split: %v belongs here: %v", mine, err)
		}
	},
}

// splitter divides the ids among two processes, of which this is the first.
func (w *world) splitter() executor.Splitter {
	switch w.conf.str("nodes") {
	case "":
		return executor.Splitter{}
	case "hash":
		return executor.Splitter{Nodes: 2, Self: 0}
	}
	return executor.Splitter{Nodes: 2, Owner: func(id string) int {
		if w.conf.str("nodes") == "2" && id == "c" {
			return 1
		}
		return 0
	}}
}
