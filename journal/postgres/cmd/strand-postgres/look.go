package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/strandjobs/strand/executor/command"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres"
)

// inWords is an error in the words of the command.
type inWords struct{ error }

func (e inWords) Error() string { return tame(inFlags.Replace(e.error.Error())) }
func (e inWords) Unwrap() error { return e.error }

// look looks into the partitions as strand looks into a journal at rest.
func (c *call) look(ctx context.Context, out, errs io.Writer) int {
	asJSON := slices.Contains(c.words, "-json") || slices.Contains(c.words, "--json")
	p := command.Program{Name: "strand-postgres", Look: func(ctx context.Context, verb string, look func([]*journal.View) error) error {
		err := postgres.Look(ctx, c.url, c.cfg, func(s postgres.Stats, views []*journal.View) error {
			if verb == "status" {
				c.status(out, s, asJSON)
			}
			err, rows := look(views), 0
			for _, p := range s.Partitions {
				rows += p.Inbox + p.Refused
			}
			if verb != "status" && rows > 0 {
				fmt.Fprintf(errs, "strand-postgres: %d rows of the inbox are in no partition yet, and are not in this list\n", rows)
			}
			return err
		})
		if err != nil {
			return inWords{err}
		}
		return nil
	}}
	return p.Run(ctx, append([]string{p.Name}, c.words...), nil, out, errs, c.now)
}

// status prints what the server knows of nodes and partitions.
func (c *call) status(out io.Writer, s postgres.Stats, asJSON bool) {
	lines, text := json.NewEncoder(io.Discard), out
	if asJSON {
		lines, text = json.NewEncoder(out), io.Discard
	}
	t := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tID")
	for _, id := range slices.Sorted(maps.Keys(s.Nodes)) {
		_ = lines.Encode(map[string]any{"type": "node", "id": id, "name": tame(s.Nodes[id])})
		fmt.Fprintf(t, "%s\t%s\n", tame(s.Nodes[id]), id)
	}
	fmt.Fprintln(t, "\nPARTITION\tOWNER\tSINCE\tEPOCH\tINBOX\tREFUSED")
	for _, p := range s.Partitions {
		owner, since := c.owner(p)
		line := map[string]any{"type": "partition", "partition": p.Partition, "epoch": p.Epoch, "inbox": p.Inbox, "refused": p.Refused}
		if p.Owner != "" {
			line["owner"], line["name"], line["since"] = p.Owner, owner, p.Since
		}
		_ = lines.Encode(line)
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%d\n", p.Partition, owner, since, p.Epoch, p.Inbox, p.Refused)
	}
	_ = t.Flush()
	if s.SnapshotHolder != "" {
		fmt.Fprintf(text, "\nold rows have been kept for %v because of %s\n", s.SnapshotAge, tame(s.SnapshotHolder))
	}
}

// owner says who has a partition, and since when.
func (c *call) owner(p postgres.PartitionStats) (name, since string) {
	switch {
	case p.Owner == "":
		return "nobody", "-"
	case p.Since == nil:
		return tame(cmp.Or(p.Name, p.Owner)), "before version 2.2"
	}
	return tame(cmp.Or(p.Name, p.Owner)), fmt.Sprintf("%s (%v ago)", p.Since.UTC().Format(time.RFC3339), max(c.now.Sub(*p.Since), 0).Truncate(time.Second))
}

// running says who can answer what only nodes know.
func (c *call) running(ctx context.Context, out io.Writer) error {
	return postgres.Look(ctx, c.url, c.cfg, func(s postgres.Stats, _ []*journal.View) (err error) {
		for _, p := range s.Partitions {
			says := "has no owner: nothing of it runs"
			if owner, since := c.owner(p); p.Owner != "" {
				says, err = fmt.Sprintf("is owned by %s, since %s", owner, since), errOwner
			}
			fmt.Fprintf(out, "partition %d %s\n", p.Partition, says)
		}
		return err
	})
}

// errOwner is why there is no answer.
var errOwner = errors.New("what runs, only nodes know: ask their dashboards, each of which shows all of it")

// explain has the owner of a job say why it does not run.
func (c *call) explain(ctx context.Context, out io.Writer) error {
	cfg := c.cfg
	cfg.SingleServer, cfg.Executor.Logger = true, slog.New(slog.DiscardHandler) // a question may be lost with a server
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	x, err := postgres.Open(ctx, c.url, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = x.Stop(ctx) }()
	n := postgres.NodeOf(x)
	number, err := n.PartitionOf(c.words[2])
	s, failed := n.Stats(ctx)
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	if s.Partitions[number].Owner == "" {
		_, err = fmt.Fprintf(out, "partition %d has no owner: nothing of it runs\n", number)
		return err
	}
	why, err := x.Inspect().Explain(ctx, c.words[1], c.words[2])
	if err == nil {
		fmt.Fprintln(out, why)
	}
	return err
}
