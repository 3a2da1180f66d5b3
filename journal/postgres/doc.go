// Package postgres keeps journals in PostgreSQL.
package postgres
