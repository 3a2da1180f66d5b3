package world

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"
)

// memory is what a world knows, and what its next process has to know: who was told what,
// what was seen, what is under way. What belongs to a process is not in it: functions,
// contexts, and values of other packages.
type memory struct {
	now    time.Time // on the clock of the bubble
	next   int       // the step to go on with
	life   int
	epoch  int
	conf   line
	all    []*queue
	ledger *ledger

	running []*run
	calls   []*call
	state   map[string]any
}

// call is one that was made and has not returned.
type call struct {
	queue *queue
	line  line
	mine  []*item
}

// kept are the types of what features keep in the state of a world.
var kept = []reflect.Type{
	reflect.TypeFor[int](), reflect.TypeFor[time.Time](), reflect.TypeFor[*item](), reflect.TypeFor[map[string]*item](),
	reflect.TypeFor[*source](), reflect.TypeFor[map[string]*pause](), reflect.TypeFor[map[int]*run](), reflect.TypeFor[map[string][]time.Time](),
	reflect.TypeFor[*limits](), reflect.TypeFor[*byHand](), reflect.TypeFor[[]clockSet](),
}

// packed is a memory as bytes, for the same program.
func (m *memory) packed() []byte {
	p := packer{seen: make(map[unsafe.Pointer]uint64)}
	p.put(reflect.ValueOf(m).Elem())
	return p.data
}

// unpack is the inverse of packed.
func unpack(data []byte) (m *memory, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a memory of %d bytes: %v", len(data), r)
		}
	}()
	m = new(memory)
	u := unpacker{data: data}
	u.get(reflect.ValueOf(m).Elem())
	return m, nil
}

// ours reports whether a type points to a value of a world, which may be in several places.
func ours(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[memory]().PkgPath()
}

// packer writes values down. A pointer is a number, and the first time what is there.
type packer struct {
	data []byte
	seen map[unsafe.Pointer]uint64
}

func (p *packer) number(n uint64) { p.data = binary.AppendUvarint(p.data, n) }

func (p *packer) put(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		p.number(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int64:
		p.data = binary.AppendVarint(p.data, v.Int())
	case reflect.Uint64:
		p.number(v.Uint())
	case reflect.Float64:
		p.number(math.Float64bits(v.Float()))
	case reflect.String:
		p.number(uint64(v.Len()))
		p.data = append(p.data, v.String()...)
	case reflect.Slice, reflect.Map:
		p.putAll(v)
	case reflect.Struct:
		for _, field := range v.Fields() {
			p.put(field)
		}
	case reflect.Pointer:
		if ours(v.Type()) {
			p.putPointer(v)
		}
	case reflect.Interface:
		p.putAny(v)
	case reflect.Func:
	default:
		panic(fmt.Sprintf("world: a memory can't have a %v", v.Type()))
	}
}

func (p *packer) putAll(v reflect.Value) {
	if v.IsNil() {
		p.number(0)
		return
	}
	p.number(uint64(v.Len()) + 1)
	if v.Kind() == reflect.Slice {
		for n := range v.Len() {
			p.put(v.Index(n))
		}
		return
	}
	for all := v.MapRange(); all.Next(); {
		p.put(all.Key())
		p.put(all.Value())
	}
}

func (p *packer) putPointer(v reflect.Value) {
	at := v.UnsafePointer()
	known, again := p.seen[at]
	switch {
	case v.IsNil():
		p.number(0)
	case again:
		p.number(known)
	default:
		p.seen[at] = uint64(len(p.seen) + 1)
		p.number(p.seen[at])
		p.put(v.Elem())
	}
}

// putAny writes what a feature keeps; 0: it belongs to the process.
func (p *packer) putAny(v reflect.Value) {
	for n, t := range kept {
		if v.NumMethod() == 0 && !v.IsNil() && v.Elem().Type() == t {
			p.number(uint64(n) + 1)
			p.put(v.Elem())
			return
		}
	}
	if v.NumMethod() == 0 && !v.IsNil() && (v.Elem().Kind() == reflect.Map || ours(v.Elem().Type())) {
		panic(fmt.Sprintf("world: %v is not kept", v.Elem().Type()))
	}
	p.number(0)
}

// unpacker reads what a packer has written, in the same order.
type unpacker struct {
	data []byte
	seen []reflect.Value
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.data)
	u.data = u.data[size:]
	return n
}

// get reads a value into v, which can be set.
func (u *unpacker) get(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(u.number() == 1)
	case reflect.Int, reflect.Int64:
		n, size := binary.Varint(u.data)
		u.data = u.data[size:]
		v.SetInt(n)
	case reflect.Uint64:
		v.SetUint(u.number())
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(u.number()))
	case reflect.String:
		n := u.number()
		v.SetString(string(u.data[:n]))
		u.data = u.data[n:]
	case reflect.Slice, reflect.Map:
		u.getAll(v)
	case reflect.Struct:
		u.getStruct(v)
	case reflect.Pointer:
		if ours(v.Type()) {
			u.getPointer(v)
		}
	case reflect.Interface:
		if n := u.number(); n > 0 {
			value := reflect.New(kept[n-1]).Elem()
			u.get(value)
			v.Set(value)
		}
	}
}

func (u *unpacker) getStruct(v reflect.Value) {
	for _, field := range v.Fields() {
		u.get(reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem())
	}
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		*t = t.Round(0) // what it has of the clock of the process means nothing to another
	}
}

func (u *unpacker) getAll(v reflect.Value) {
	n := int(u.number())
	if n == 0 {
		return
	}
	n--
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			u.get(v.Index(i))
		}
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		u.get(key)
		u.get(value)
		v.SetMapIndex(key, value)
	}
}

func (u *unpacker) getPointer(v reflect.Value) {
	n := int(u.number())
	switch {
	case n == 0:
	case n <= len(u.seen):
		v.Set(u.seen[n-1])
	default:
		made := reflect.New(v.Type().Elem())
		u.seen = append(u.seen, made)
		v.Set(made)
		u.get(made.Elem())
	}
}
