package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/strandjobs/strand/executor/internal/serving"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that pages load, as it is sent.
type asset struct {
	kind            string
	plain, squeezed []byte
	version         string // of its content: what has the same is the same for ever
}

// kinds are what files are, by their ending: the system's table may say anything.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".LICENSE": "text/plain; charset=utf-8"}

// assets are made when the first page is.
var assets = sync.OnceValue(func() map[string]asset {
	all := make(map[string]asset)
	for _, file := range must(assetFiles.ReadDir("assets")) {
		content := must(assetFiles.ReadFile("assets/" + file.Name()))
		sum := sha256.Sum256(content)
		all[file.Name()] = asset{kinds[path.Ext(file.Name())], content, squeeze(content), hex.EncodeToString(sum[:6])}
	}
	return all
})

// must is for what is in the binary.
func must[T any](v T, err error) T {
	if err != nil {
		panic("dashboard: bug: " + err.Error())
	}
	return v
}

// assetURL is the address of a file, seen from a page.
func assetURL(name string) string { return "assets/" + name + "?v=" + assets()[name].version }

func serveAsset(w http.ResponseWriter, r *http.Request) error {
	a, found := assets()[path.Base(r.URL.Path)]
	if !found {
		return problem{http.StatusNotFound, "there is no such file"}
	}
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	send(w, r, http.StatusOK, a.kind, a.plain, func() []byte { return a.squeezed })
	return nil
}

func squeeze(content []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(content) // to memory
	_ = z.Close()
	return b.Bytes()
}

// worthSqueezing is where gzip begins to save a packet.
const worthSqueezing = 1400

// send sends an answer that is all there.
func send(w http.ResponseWriter, r *http.Request, status int, kind string, content []byte, squeezed func() []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Add("Vary", "Accept-Encoding")
	if len(content) > worthSqueezing && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = squeezed()
	}
	if r.Method == http.MethodHead {
		content = nil
	}
	serving.Send(w, status, content)
}
