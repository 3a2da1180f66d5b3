package executor

import "encoding/json"

// Codec turns payloads of type T into bytes and back. Any goroutine may call both
// methods. Enqueue returns an error or a panic of Encode. A payload for which Decode
// returns an error or panics becomes a dead letter, with its bytes: at once, or when the
// retries of its job are used up, if the error has a method Temporary that returns true,
// or another process may go on with the log, as on PostgreSQL. Till then that is a failure.
type Codec[T any] interface {
	// Encode returns bytes that stay as they are until Enqueue has returned: not a
	// buffer that the next Encode uses again.
	Encode(T) ([]byte, error)

	// Decode must not keep data, nor change it.
	Decode(data []byte) (T, error)
}

// JSON is the default codec: encoding/json.
type JSON[T any] struct{}

// Encode implements [Codec].
func (JSON[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

// Decode implements [Codec].
func (JSON[T]) Decode(data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	return v, err
}

// Raw takes bytes as they are. It is the default for payloads of type []byte.
type Raw struct{}

// Encode implements [Codec].
func (Raw) Encode(v []byte) ([]byte, error) { return v, nil }

// Decode implements [Codec]. The handler gets a copy of its own.
func (Raw) Decode(data []byte) ([]byte, error) { return append([]byte{}, data...), nil }

var _ Codec[[]byte] = Raw{}

func defaultCodec[T any]() Codec[T] {
	if raw, ok := any(Raw{}).(Codec[T]); ok {
		return raw
	}
	return JSON[T]{}
}
