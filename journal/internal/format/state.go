package format

// Set puts a value under a key of the state bucket, in the commit of the Change
// that it is part of. A nil Value deletes the key. What the state means is the
// consumer's business; keys begin with a word of its own and a slash.
type Set struct {
	Key   string
	Value []byte
}

// Edit is the change of the bucket.
func (s Set) Edit() Edit { return Edit{Bucket: BucketState, Key: []byte(s.Key), Value: s.Value} }
