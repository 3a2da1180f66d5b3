package main

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	beChild()
	os.Exit(m.Run())
}

func TestProofs(t *testing.T) {
	for _, p := range proofs {
		t.Run(p.name, func(t *testing.T) {
			if p.lacks != nil {
				if why := p.lacks(); why != "" {
					t.Skip(why)
				}
			}
			units := p.short
			if longTier() {
				units = p.long
			}
			c := newCampaign(p, uint64(time.Now().UnixNano()), units, time.Time{})
			if err := p.run(c); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d %s in %v", c.Done, c.unit, time.Since(c.start).Round(time.Millisecond))
			for _, line := range c.lines() {
				t.Log(line)
			}
		})
	}
}
