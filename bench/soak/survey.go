package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
)

// survey reads a copy of the journal: what survived is what explains the locks
// that the next life finds.
func (l *ledger) survey(dir, copied string) error {
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		return err
	}
	var err error
	l.pending, _, err = split(copied)
	return errors.Join(err, os.RemoveAll(copied))
}

// compare checks a list of all that is held with what the payloads explain.
func (l *ledger) compare(list []string) error {
	l.forget()
	counted := map[string]int{}
	for name, numbers := range l.pending {
		if id, counts := strings.CutPrefix(name, countQueue+" "); counts {
			for n := range numbers {
				counted["k "+lockKey(countQueue, id, n)+" "+countQueue+"/"+id]++
			}
		}
	}
	if l.hand {
		counted["k "+handKey+" a-person"]++
	}
	keys, slots := map[string]string{}, map[string]string{}
	for _, line := range list {
		words := strings.Fields(line)
		queue, id, _ := strings.Cut(words[len(words)-1], "/")
		switch {
		case words[0] == "r":
			slots[words[1]+" "+words[2]] = words[1] + " " + id
		case locksOnRun(queue):
			me := queue + " " + id
			if other := keys[words[1]]; other != "" && other != me { // a payload of it each
				return fmt.Errorf("%s is locked twice, by %s and %s", words[1], other, me)
			}
			keys[words[1]] = me
		default:
			counted[line]--
		}
	}
	for line, n := range counted {
		if n != 0 {
			return fmt.Errorf("%q: the payloads that are not over explain %d more locks than there are", line, n)
		}
	}
	if err := l.compareKeys(keys); err != nil {
		return err
	}
	return l.compareSlots(slots)
}

// forget leaves out what the journal says is over or was never to be.
func (l *ledger) forget() {
	for n, s := range l.reserved {
		s.running = false
		if !l.pending[s.name][n] {
			delete(l.reserved, n)
		}
	}
	maps.DeleteFunc(l.owners, func(key string, o *owner) bool { return !l.wants(o.name, key) })
}

// wants reports whether a payload that is not over has a key.
func (l *ledger) wants(name, key string) bool {
	queue, id, _ := strings.Cut(name, " ")
	for n := range l.pending[name] {
		if lockKey(queue, id, n) == key {
			return true
		}
	}
	return false
}

func (l *ledger) compareKeys(keys map[string]string) error {
	for key, name := range keys {
		if !l.wants(name, key) {
			return fmt.Errorf("%s is locked by %s, which has no payload that will unlock it", key, name)
		}
	}
	for key, o := range l.owners {
		if o.durable && keys[key] != o.name {
			return fmt.Errorf("%s ran with %s locked, and what was accepted later is on disk; now %q has it", o.name, key, keys[key])
		}
	}
	clear(l.owners)
	for key, name := range keys {
		l.owners[key] = &owner{name: name, durable: true}
	}
	return nil
}

func (l *ledger) compareSlots(slots map[string]string) error {
	for value, name := range slots {
		if len(l.pending[name]) == 0 {
			return fmt.Errorf("slot %s is reserved for %s, which has nothing to do", value, name)
		}
	}
	for n, s := range l.reserved {
		if slots[s.value] != s.name {
			return fmt.Errorf("payload %d of %s had slot %s; now %q has it", n, s.name, s.value, slots[s.value])
		}
	}
	return nil
}
