package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
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

// assets are made when the first page is.
var assets = sync.OnceValue(func() map[string]asset {
	all := make(map[string]asset)
	files, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic("dashboard: bug: " + err.Error()) // they are in the binary
	}
	for _, file := range files {
		content, err := assetFiles.ReadFile("assets/" + file.Name())
		if err != nil {
			panic("dashboard: bug: " + err.Error())
		}
		kind := mime.TypeByExtension(path.Ext(file.Name()))
		switch path.Ext(file.Name()) { // the system's table may say anything
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		case ".LICENSE":
			kind = "text/plain; charset=utf-8"
		}
		sum := sha256.Sum256(content)
		all[file.Name()] = asset{kind, content, squeeze(content), hex.EncodeToString(sum[:6])}
	}
	return all
})

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
