package peer

import (
	"database/sql"
	"fmt"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
)

// openSQLite opens a new database with a write-ahead log, in which every commit
// is synced under FULL, and none under NORMAL: that is up to checkpoints.
func openSQLite(dir, synchronous string) (*sql.DB, error) {
	return sql.Open("sqlite3", fmt.Sprintf("file:%s?_journal=WAL&_timeout=5000&_sync=%s", filepath.Join(dir, "jobs.db"), synchronous))
}
