package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/strandjobs/strand/journal/internal/format"
)

// buckets are those beside the log, by number less one.
var buckets = []format.Bucket{format.BucketQueues, format.BucketMorgue, format.BucketState}

func numberOf(name format.Bucket) int16 {
	i := slices.Index(buckets, name)
	if i < 0 {
		panic(fmt.Sprintf("postgres: bug: nothing is kept in bucket %q", name))
	}
	return int16(i + 1)
}

// sumOf is what tells a row beside the log from all others, and from its older versions.
func sumOf(key, value []byte) int64 {
	var sum format.Sum
	sum.Add(key, value)
	return int64(sum.Hash)
}

// What the server says, by SQLSTATE.
const (
	diskFull       = "53100"
	readOnlyServer = "25006"
)

// passing are the classes, and codes, of refusals that another attempt may not meet: of the
// connection, a transaction that gave way to another one, a server without resources, one
// that somebody works on or that may only be read.
var passing = []string{"08", "40", "53", "55", "57", readOnlyServer}

// refusedForGood reports whether the server has refused a transaction, all of it, and another
// attempt would be refused, too; a full disk counts: its caller makes the next attempt.
func refusedForGood(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.SeverityUnlocalized != "ERROR" {
		return false // the connection, or the server, is gone: nothing is known
	}
	if refused.Code == diskFull {
		return true
	}
	return !slices.ContainsFunc(passing, func(class string) bool { return strings.HasPrefix(refused.Code, class) })
}

// translated is an error in the words of a store.
func translated(err error) error {
	stated, ok := errors.AsType[interface { // of any driver
		error
		SQLState() string
	}](err)
	if !ok {
		return err
	}
	switch stated.SQLState() {
	case otherSchema:
		return fmt.Errorf("%w: %w", errRemade, err)
	case diskFull:
		return fmt.Errorf("%w: the server: %w", format.ErrFull, err)
	case "XX001", "XX002": // its own checks of pages and indexes
		return &format.CorruptError{Reason: "the server: " + stated.Error()}
	}
	return err
}

// Warnings are noted with the connection that they came on.
const warningKey = "strand.warning"

// noteWarning is for pgconn.Config.OnNotice of all connections that commit.
func noteWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warningKey] = n.Message
	}
}

func forgetWarning(conn *pgconn.PgConn) { delete(conn.CustomData(), warningKey) }

// warned returns errWarned with the warning beside the last answer; nil: there was none.
func warned(conn *pgconn.PgConn) error {
	if text, _ := conn.CustomData()[warningKey].(string); text != "" {
		return fmt.Errorf("%w: %s", errWarned, text)
	}
	return nil
}

// isIntake reports whether a change is of the offset of the inbox. Which rows are taken in says
// the inbox itself, in which they are not any longer: so the offset counts for one owner only,
// and is not written.
func isIntake(name format.Bucket, key []byte) bool {
	return name == format.BucketState && string(key) == intakeKey
}

// taken returns the rows that a commit with these changes takes in.
func (n *intake) taken(changes []format.Edit) (rows []int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := int64(math.MinInt64)
	for _, e := range changes {
		if isIntake(e.Bucket, e.Key) && len(e.Value) == 8 {
			last = max(last, int64(binary.BigEndian.Uint64(e.Value)))
		}
	}
	for number, offset := range n.rows {
		if offset <= last {
			rows = append(rows, number)
		}
	}
	return rows
}

// note keeps the offset that a commit has set.
func (n *intake) note(changes []format.Edit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range changes {
		if isIntake(e.Bucket, e.Key) {
			n.offset = bytes.Clone(e.Value)
		}
	}
}

// last returns the offset that was set, if one was.
func (n *intake) last() (offset []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.offset)
}

// over forgets rows that are taken in, or were not and are to be noted again.
func (n *intake) over(rows []int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, number := range rows {
		delete(n.rows, number)
	}
}
