package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/shard"
)

// configs are what the flags say about queues; "*" is for all others.
type configs map[string]shard.Config

func (c configs) of(queue string) shard.Config {
	if cfg, known := c[queue]; known {
		return cfg
	}
	return c["*"]
}

// defaultMaxPayloads is that of the executor.
const defaultMaxPayloads = 1000

func configFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringMapFlag{Name: "merge", Usage: "what becomes of equal payloads, `QUEUE=POLICY`: KeepAll, the default, MinScore, KeepFirst, KeepLast or Supersede; QUEUE * is all others"},
		&cli.StringMapFlag{Name: "on-failure", Usage: "what a failure means for later payloads, `QUEUE=POLICY`: MergeFailed or BlockFailed"},
	}
}

// readConfigs reads the flags; limit is the most payloads of a run.
func readConfigs(c *call, limit int) (configs, error) {
	got := configs{"*": {}}
	for _, p := range policies {
		for queue := range c.StringMap(p.flag) {
			got[queue] = shard.Config{}
		}
	}
	for queue := range got {
		cfg := shard.Config{MaxPayloads: limit}
		for _, p := range policies {
			values, of := c.StringMap(p.flag), queue
			if _, said := values[of]; !said {
				of = "*"
			}
			if v, said := values[of]; said && !p.set(&cfg, v) {
				return nil, usage("-%s %s=%s: no such value; it may be %s", p.flag, of, v, p.values)
			}
		}
		got[queue] = cfg
	}
	return got, nil
}

// policies are the flags that say how a queue behaves. The shape comes first, for
// it brings defaults of its own.
var policies = []struct {
	flag, values string
	set          func(cfg *shard.Config, v string) bool
}{
	{"shape", "events, state or merged", func(cfg *shard.Config, v string) bool {
		switch v {
		case "events": // as Handle has it
			cfg.Single, cfg.OnFailure, cfg.MaxPayloads = true, shard.OnFailureBlock, 0
		case "state": // as HandleLatest has it
			cfg.Single, cfg.Merge, cfg.MaxPayloads = true, shard.MergeSupersede, 0
		}
		return v == "events" || v == "state" || v == "merged"
	}},
	{"merge", namesOf(shard.MergeSupersede), func(cfg *shard.Config, v string) bool { return named(&cfg.Merge, v, shard.MergeSupersede) }},
	{"on-failure", namesOf(shard.OnFailureBlock), func(cfg *shard.Config, v string) bool { return named(&cfg.OnFailure, v, shard.OnFailureBlock) }},
	{"max-payloads", "a number, 0 is all", func(cfg *shard.Config, v string) bool {
		n, err := strconv.Atoi(v)
		cfg.MaxPayloads = max(n, 0)
		return err == nil
	}},
}

// named sets v to the value with a name, up to the last one.
func named[T interface {
	~uint8
	fmt.Stringer
}](v *T, name string, last T) bool {
	for i := T(0); i <= last; i++ {
		if strings.EqualFold(i.String(), name) {
			*v = i
			return true
		}
	}
	return false
}

// namesOf are the names of all values up to the last one.
func namesOf[T interface {
	~uint8
	fmt.Stringer
}](last T) string {
	var names strings.Builder
	names.WriteString(T(0).String())
	for i := T(1); i < last; i++ {
		names.WriteString(", " + i.String())
	}
	return names.String() + " or " + last.String()
}
