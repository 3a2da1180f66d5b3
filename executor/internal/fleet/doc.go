// Package fleet shows the executors of many partitions as one, and acts on them as one: an
// [inspect.Inspector] whose methods ask the partitions that are meant, wherever they are, and
// put the answers together.
//
//	Inspector ──▶ Asker ── Question, as bytes ──▶ the cluster ──▶ Do, where the partition is
//	                    ◀── Answer, as bytes ──
//
// # What is needed
//
// A function that has a partition answer a question, and an inspector of an executor with the
// same queues and without jobs. That one refuses what makes no sense, and decodes payloads.
//
// # What is promised
//
//   - A call is refused before any partition is asked if it makes no sense.
//   - Who acts gets a sum of what was done, also with an error; to pause or resume a queue, a
//     prefix or the executor counts once.
//   - A page in an order has the first rows of all partitions, and its cursor is good for all.
//     Without an order one partition comes after the other.
//
// Any goroutine may call all methods, at any time. Census: a goroutine for each partition that
// is asked, until it has answered.
package fleet
