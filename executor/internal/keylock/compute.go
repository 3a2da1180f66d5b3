package keylock

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/lock"
)

// ErrInvalidKey is returned for what is no key, and for a function that panics.
var ErrInvalidKey = errors.New("executor: invalid key")

// maxKeyBytes is the length of the longest key.
const maxKeyBytes = 512

// CheckKey refuses what is no key.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: nil means no key", lock.ErrEmptyKey)
	}
	if len(key) > maxKeyBytes {
		return fmt.Errorf("%w: %q has %d bytes, it must have from 1 to %d", ErrInvalidKey, brief.Clip(key), len(key), maxKeyBytes)
	}
	return nil
}

// Compute returns the keys of a payload, each once, from a function of the program that is
// set under name; nil without one. Errors match ErrInvalidKey, and say the name.
func Compute[T any](name string, f func(string, T) []string) KeysOf {
	if f == nil {
		return nil
	}
	return func(id string, payload any) (keys []string, err error) {
		var all []string
		value, _ := payload.(T) // of an interface type it may be nil
		if err := guard.Call(func() error { all = f(id, value); return nil }); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalidKey, name, err)
		}
		for _, key := range all {
			if key == "" {
				return nil, fmt.Errorf("%w: %s: %w: return 1 to %d bytes", ErrInvalidKey, name, lock.ErrEmptyKey, maxKeyBytes)
			}
			if err := CheckKey(key); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			keys = admit.With(keys, key)
		}
		return keys, nil
	}
}

// ComputeOne is Compute for a function that returns one key.
func ComputeOne[T any](name string, f func(string, T) string) func(id string, payload any) (string, error) {
	if f == nil {
		return nil
	}
	keys := Compute(name, func(id string, value T) []string { return []string{f(id, value)} })
	return func(id string, payload any) (string, error) {
		all, err := keys(id, payload)
		if err != nil {
			return "", err
		}
		return all[0], nil
	}
}
