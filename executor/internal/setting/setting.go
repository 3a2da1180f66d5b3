// Package setting checks settings: each error matches ErrConfig, and says the name, the value, and
// what it must be.
package setting

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrConfig is returned for a setting that makes no sense.
var ErrConfig = errors.New("executor: invalid configuration")

// InRange checks a setting whose zero value is its default, which counts by now.
func InRange(name string, v, low, high int) error {
	if v < low || v > high {
		zero := ""
		if low > 0 {
			zero = "0 (the default) or "
		}
		return fmt.Errorf("%w: %s is %d, it must be %sfrom %d to %d", ErrConfig, name, v, zero, low, high)
	}
	return nil
}

// NotNegative checks a time that can't be switched off.
func NotNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: %s is %v, it must not be below zero", ErrConfig, name, d)
	}
	return nil
}

// NotAbove checks a setting of which below zero is none.
func NotAbove[T int | time.Duration](name string, v, limit T) error {
	if v > limit {
		return fmt.Errorf("%w: %s is %v, it must not be above %v", ErrConfig, name, v, limit)
	}
	return nil
}

// Among checks a setting that is one of some words.
func Among[S ~string](name string, v S, known ...S) error {
	if !slices.Contains(known, v) {
		return fmt.Errorf("%w: %s is %q, it must be one of %q", ErrConfig, name, v, known)
	}
	return nil
}
