// Package gate lets one call at a time through under each name, from before it
// looks at the journal until it knows what became of what it wrote. A call that
// leaves without that knowledge leaves its gate open: the next one is inside when
// the outcome is known.
//
// A name takes memory only while a call uses it, or its outcome is open. No user
// code is called, and nothing here waits but Enter.
package gate
