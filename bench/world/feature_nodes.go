package world

import "github.com/strandjobs/strand/executor"

// Some ids belong to another process: they are refused here, and what is here goes on.
var dividing = &feature{
	name: "nodes", claims: "Config.Splitter ByNode",
	world: func(d *draw, l line) { l.set("nodes", d.one("1", "2")) },
	config: func(w *world, cfg *executor.Config) {
		if w.conf.has("nodes") {
			cfg.Splitter = executor.Splitter{Nodes: 2, Owner: func(id string) int {
				if w.conf.str("nodes") == "2" && id == "c" {
					return 1
				}
				return 0
			}}
		}
	},
	answered: func(w *world, _ *queue, l line, mine []*item, _ []executor.Receipt, err error) {
		for _, i := range mine {
			if w.conf.str("nodes") == "2" && i.id == "c" && err == nil {
				w.fail("split: %v was accepted by a process that it does not belong to", i)
			}
		}
	},
}
