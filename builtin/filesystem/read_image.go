package filesystem

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/builtin/internal/file"
)

// Limits of images.
const (
	// maxImage is the largest image handed on as it is, in bytes: as base64 it stays below the 500,000
	// characters of a Read.
	maxImage = 360_000
	// maxEdge is the longest edge of an image that was made smaller, in pixels: what vision
	// models look at without making it smaller themselves.
	maxEdge = 1568
	// maxAsIs is the longest edge of an image that is handed on as it is, in pixels.
	maxAsIs = 2000
	// maxPixels bounds what is decoded: four bytes a pixel, and a file can claim any size.
	maxPixels = 40_000_000
)

// mediaOf tells images and PDFs by their first bytes, or is "".
func mediaOf(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "image/webp"
	case bytes.HasPrefix(head, []byte("%PDF-")):
		return "application/pdf"
	}
	return ""
}

// imageBlock is the model content of an image.
type imageBlock struct {
	Type      string `json:"type"`
	MediaType string `json:"mediaType"`
	Base64    string `json:"base64"`
}

// image returns an image, made smaller where it is too large for a model.
func (r *reader) image(ctx context.Context, media string) (*abi.Result, error) {
	if err := r.call.Yield(abi.Message("It is an image (" + media + ")")); err != nil {
		return nil, err
	}
	b, err := r.whole(ctx)
	if err != nil {
		return nil, err
	}
	meta := r.meta("base64")
	meta["is_binary"], meta["media_type"] = true, media
	cfg, img, err := r.decode(media, b)
	if err != nil {
		return nil, err
	}
	meta["width"], meta["height"] = cfg.Width, cfg.Height
	if err := file.Aborted(ctx); err != nil {
		return nil, err
	}
	if len(b) > maxImage || max(cfg.Width, cfg.Height) > maxAsIs {
		if img == nil {
			return nil, tooLarge("it is of a kind that cannot be decoded here")
		}
		if b, media, err = shrink(ctx, img); err != nil {
			return nil, err
		}
		meta["resized"], meta["media_type"] = true, media
	}
	s := base64.StdEncoding.EncodeToString(b)
	return result(imageBlock{"image", media, s}, readData{FilePath: r.t.Path, Content: s, Encoding: "base64", MediaType: media},
		fmt.Sprintf("An image, %s, %d bytes", media, r.st.Size), meta)
}

func imageConfig(media string, b []byte) (image.Config, error) {
	decode := map[string]func(*bytes.Reader) (image.Config, error){
		"image/png":  func(r *bytes.Reader) (image.Config, error) { return png.DecodeConfig(r) },
		"image/jpeg": func(r *bytes.Reader) (image.Config, error) { return jpeg.DecodeConfig(r) },
		"image/gif":  func(r *bytes.Reader) (image.Config, error) { return gif.DecodeConfig(r) },
		"image/webp": func(r *bytes.Reader) (image.Config, error) { return webp.DecodeConfig(r) },
	}[media]
	return decode(bytes.NewReader(b))
}

func imageDecode(media string, b []byte) (image.Image, error) {
	decode := map[string]func(*bytes.Reader) (image.Image, error){
		"image/png":  func(r *bytes.Reader) (image.Image, error) { return png.Decode(r) },
		"image/jpeg": func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) },
		"image/gif":  func(r *bytes.Reader) (image.Image, error) { return gif.Decode(r) },
		"image/webp": func(r *bytes.Reader) (image.Image, error) { return webp.Decode(r) },
	}[media]
	return decode(bytes.NewReader(b))
}

// decode decodes an image as a whole, so that none is handed on that nobody can look at. img is nil for
// the kinds that are allowed and not known here, such as animations.
func (r *reader) decode(media string, b []byte) (cfg image.Config, img image.Image, err error) {
	broken := func(err error) error {
		return file.Error(abi.TypeExecution, file.CodeBadImage, "%s is a damaged image (%s): %v. Its bytes can be read with encoding base64.", r.t.Path, media, err)
	}
	defer func() {
		if p := recover(); p != nil { // decoders of hostile bytes
			err = broken(errors.New("it cannot be decoded"))
		}
	}()
	cfg, err = imageConfig(media, b)
	switch {
	case unknownKind(err):
		return cfg, nil, nil
	case err != nil:
		return cfg, nil, broken(err)
	case cfg.Width <= 0 || cfg.Height <= 0:
		return cfg, nil, broken(errors.New("it has no pixels"))
	case int64(cfg.Width)*int64(cfg.Height) > maxPixels:
		return cfg, nil, tooLarge("it has %d by %d pixels, at most %d in all are decoded", cfg.Width, cfg.Height, maxPixels)
	}
	img, err = imageDecode(media, b)
	switch {
	case unknownKind(err), err != nil && media == "image/webp" && len(b) > 20 && b[20]&2 != 0: // an animation
		return cfg, nil, nil
	case err != nil:
		return cfg, nil, broken(err)
	}
	return cfg, img, nil
}

// unknownKind reports whether a decoder refuses what the format allows.
func unknownKind(err error) bool {
	return errors.As(err, new(jpeg.UnsupportedError)) || errors.As(err, new(png.UnsupportedError))
}

func tooLarge(format string, args ...any) error {
	return file.Error(abi.TypeValidation, file.CodeTooLarge, "the image is too large to be shown and cannot be made smaller: %s. Read it with encoding base64.", fmt.Sprintf(format, args...))
}

// shrink makes an image small enough, as JPEG.
func shrink(ctx context.Context, img image.Image) (out []byte, kind string, err error) {
	for edge := maxEdge; edge >= 64; edge /= 2 {
		if err := file.Aborted(ctx); err != nil {
			return nil, "", err
		}
		small := scale(img, edge)
		for _, quality := range []int{85, 60} {
			var w bytes.Buffer
			if err := jpeg.Encode(&w, small, &jpeg.Options{Quality: quality}); err != nil {
				return nil, "", tooLarge("%v", err)
			}
			if w.Len() <= maxImage {
				return w.Bytes(), "image/jpeg", nil
			}
		}
	}
	return nil, "", tooLarge("even a small copy has too many bytes")
}

// scale is the image with at most edge pixels along its longer edge, on white where it is
// transparent.
func scale(img image.Image, edge int) image.Image {
	b := img.Bounds()
	f := math.Min(1, float64(edge)/float64(max(b.Dx(), b.Dy())))
	to := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(b.Dx())*f)), max(1, int(float64(b.Dy())*f))))
	draw.Draw(to, to.Bounds(), image.White, image.Point{}, draw.Src)
	draw.CatmullRom.Scale(to, to.Bounds(), img, b, draw.Over, nil)
	return to
}
