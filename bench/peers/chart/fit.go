package chart

import (
	"fmt"
	"html"
	"regexp"
	"strconv"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// family is what the text is measured in, and what stands in where it is not
// installed: fonts with the same widths, then any.
const family = "font-family:Liberation Sans,Arial,Helvetica,sans-serif"

var words = regexp.MustCompile(`(<text [^>]*)style="font-family:Liberation Sans(;[^"]*;font-size:([\d.]+)px[^"]*)">([^<]*)</text>`)

// fit gives each text of an SVG document the width that it was laid out for.
// Without it a viewer with a wider font, as DejaVu Sans or Verdana, would write
// over the bars.
func fit(svg []byte) ([]byte, error) {
	var failed error
	fitted := words.ReplaceAllFunc(svg, func(found []byte) []byte {
		part := words.FindSubmatch(found)
		size, err := strconv.ParseFloat(string(part[3]), 64)
		if err != nil {
			failed = fmt.Errorf("chart: %q: %w", found, err)
		}
		width := widthOf(html.UnescapeString(string(part[4])), vg.Points(size)).Points()
		return fmt.Appendf(nil, `%stextLength="%.5g" lengthAdjust="spacingAndGlyphs" style="%s%s">%s</text>`, part[1], width, family, part[2], part[4])
	})
	return fitted, failed
}

// widthOf is how wide a text is laid out.
func widthOf(text string, size vg.Length) vg.Length {
	face := font.DefaultCache.Lookup(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	return face.Width(text)
}
