package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// writePayload makes the payload of a number. Its length depends on the number
// alone: most are short, some need several pages.
func writePayload(number uint64) []byte {
	h := fnv.New64a()
	fmt.Fprint(h, number)
	n := int(h.Sum64() % 100)
	if n == 7 {
		n = 3000 + int(h.Sum64()>>32%15000)
	}
	text := strconv.FormatUint(number, 10) + ":"
	return []byte(text + strings.Repeat(text, n/len(text)))
}

func readPayload(b []byte) (number uint64, err error) {
	text, _, _ := strings.Cut(string(b), ":")
	if number, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, err
	}
	if !slices.Equal(b, writePayload(number)) {
		return number, errors.New("not the bytes that were enqueued")
	}
	return number, nil
}
