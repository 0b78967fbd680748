/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/foreign.h"

#include "base/text.h"
#include "codec/bytes.h"

#include <string.h>
#include <strings.h>

enum { TEXT_SEEN = 1024, ZEROS_SEEN = 512, BRANDS_SEEN = 256 };

struct magic {
	size_t at, length;
	const char *bytes;
	struct stk_foreign kind;
};

#define TO_PNG(ending) "convert it to PNG: magick in." ending " out.png"
#define FRAMES(ending) "read clips of it with Loader(frames=N) or readers.video, or take pictures from it: ffmpeg -i in." ending " %06d.jpg"
#define SOUND "it holds no picture; read it with Loader(fields={\"audio\": Audio(...)}) or decoders.audio"
#define MAGIC(at, bytes) at, sizeof(bytes) - 1, bytes
static const char again[] = "copy or download it again";

static const struct magic magics[] = {
	{MAGIC(0, "GIF8"), {"a GIF", "convert it to PNG (of an animation, each picture): magick in.gif out.png", true}},
	{MAGIC(0, "\0\0\0\x0cjP  \r\n\x87\n"), {"a JPEG 2000 file", "convert it to PNG: opj_decompress -i in.jp2 -o out.png", true}},
	{MAGIC(0, "\xff\x4f\xff\x51"), {"a JPEG 2000 codestream", "convert it to PNG: opj_decompress -i in.j2k -o out.png", true}},
	{MAGIC(0, "\0\0\0\x0cJXL \r\n\x87\n"), {"a JPEG XL file", "convert it to PNG: djxl in.jxl out.png", true}},
	{MAGIC(0, "\xff\x0a"), {"a JPEG XL codestream", "convert it to PNG: djxl in.jxl out.png", true}},
	{MAGIC(0, "II\xbc\x01"), {"a JPEG XR file", "convert it to PNG: JxrDecApp -i in.jxr -o out.bmp", true}},
	{MAGIC(0, "8BPS"), {"a Photoshop file (PSD)", "convert it to PNG: magick \"in.psd[0]\" out.png", true}},
	{MAGIC(0, "\0\0\1\0"), {"an icon (ICO)", TO_PNG("ico"), true}}, {MAGIC(0, "\0\0\2\0"), {"a cursor (CUR)", TO_PNG("cur"), true}},
	{MAGIC(0, "icns"), {"an icon (ICNS)", TO_PNG("icns"), true}},
	{MAGIC(0, "%PDF-"), {"a PDF document", "convert its pages to PNG: pdftoppm -png in.pdf out", true}},
	{MAGIC(0, "%!PS"), {"a PostScript file (EPS)", "convert it to PNG: gs -sDEVICE=png16m -r300 -o out.png in.eps", true}},
	{MAGIC(0, "\xc5\xd0\xd3\xc6"), {"a PostScript file (EPS)", "convert it to PNG: gs -sDEVICE=png16m -r300 -o out.png in.eps", true}},
	{MAGIC(0, "AT&TFORM"), {"a DjVu document", "convert its pages to TIFF: ddjvu -format=tiff in.djvu out.tiff", true}},
	{MAGIC(0, "gimp xcf"), {"a GIMP file (XCF)", TO_PNG("xcf"), true}},
	{MAGIC(0, "\x76\x2f\x31\x01"), {"an OpenEXR file", TO_PNG("exr"), true}},
	{MAGIC(0, "#?RADIANCE"), {"a Radiance picture (HDR)", TO_PNG("hdr"), true}},
	{MAGIC(0, "#?RGBE"), {"a Radiance picture (HDR)", TO_PNG("hdr"), true}},
	{MAGIC(0, "PF\n"), {"a portable float map (PFM)", TO_PNG("pfm"), true}},
	{MAGIC(0, "Pf\n"), {"a portable float map (PFM)", TO_PNG("pfm"), true}},
	{MAGIC(0, "DDS "), {"a DirectDraw surface (DDS)", TO_PNG("dds"), true}}, {MAGIC(0, "qoif"), {"a QOI picture", TO_PNG("qoi"), true}},
	{MAGIC(0, "BPG\xfb"), {"a BPG picture", "convert it to PNG: bpgdec -o out.png in.bpg", true}},
	{MAGIC(0, "\x01\xda\0\1"), {"an SGI picture", TO_PNG("sgi"), true}},
	{MAGIC(0, "\x01\xda\1\1"), {"an SGI picture", TO_PNG("sgi"), true}},
	{MAGIC(0, "\x59\xa6\x6a\x95"), {"a Sun raster picture", TO_PNG("ras"), true}},
	{MAGIC(0, "\xd7\xcd\xc6\x9a"), {"a Windows metafile (WMF)", TO_PNG("wmf"), true}},
	{MAGIC(0, "/* XPM */"), {"an XPM picture", TO_PNG("xpm"), true}}, {MAGIC(0, "SIMPLE  ="), {"a FITS file", TO_PNG("fits"), true}},
	{MAGIC(128, "DICM"), {"a DICOM file", "convert it to PNG: dcm2img in.dcm out.png", true}},
	{MAGIC(0, "FUJIFILMCCD-RAW"), {"a raw picture of a camera (RAF)", "develop it to TIFF: dcraw -T in.raf", true}},
	{MAGIC(0, "IIRO"), {"a raw picture of a camera (ORF)", "develop it to TIFF: dcraw -T in.orf", true}},
	{MAGIC(0, "IIU\0"), {"a raw picture of a camera (RW2)", "develop it to TIFF: dcraw -T in.rw2", true}},
	{MAGIC(0, "\x1a\x45\xdf\xa3"), {"a video (WebM or Matroska)", FRAMES("mkv"), true, true}},
	{MAGIC(0, "\0\0\1\xba"), {"a video (MPEG)", FRAMES("mpg"), true, true}},
	{MAGIC(0, "\0\0\1\xb3"), {"a video (MPEG)", FRAMES("mpg"), true, true}},
	{MAGIC(0, "FLV\1"), {"a video (FLV)", FRAMES("flv"), true, true}},
	{MAGIC(8, "AVI LIST"), {"a video (AVI)", FRAMES("avi"), true, true}}, {MAGIC(8, "WAVEfmt "), {"a sound (WAV)", SOUND, false, true}},
	{MAGIC(0, "OggS"), {"an Ogg file (sound or video)", FRAMES("ogv"), true, true}},
	{MAGIC(0, "fLaC"), {"a sound (FLAC)", SOUND, false, true}}, {MAGIC(0, "ID3"), {"a sound (MP3)", SOUND, false, true}},
	{MAGIC(0, "\x1f\x8b"), {"compressed by gzip", "unpack it first: gunzip FILE.gz", false}},
	{MAGIC(0, "BZh"), {"compressed by bzip2", "unpack it first: bunzip2 FILE.bz2", false}},
	{MAGIC(0, "\xfd"
		  "7zXZ\0"),
		{"compressed by xz", "unpack it first: unxz FILE.xz", false}},
	{MAGIC(0, "\x28\xb5\x2f\xfd"), {"compressed by Zstandard", "unpack it first: unzstd FILE.zst", false}},
	{MAGIC(0, "PK\3\4"), {"a zip archive", "unpack it first: unzip FILE.zip", false}},
	{MAGIC(0, "PK\5\6"), {"an empty zip archive", again, false}},
	{MAGIC(0, "7z\xbc\xaf\x27\x1c"), {"a 7z archive", "unpack it first: 7z x FILE.7z", false}},
	{MAGIC(0, "Rar!\x1a\7"), {"a RAR archive", "unpack it first: unrar x FILE.rar", false}},
	{MAGIC(257, "ustar"), {"a tar archive", "read it with readers.webdataset, or unpack it first: tar -xf FILE.tar", false}},
	{MAGIC(0, "\x93NUMPY"), {"an array of NumPy (.npy)", "read it with readers.numpy or numpy.load", false}},
	{MAGIC(0, "\x89HDF\r\n\x1a\n"), {"an HDF5 file", "take the images out of it, as with h5py", false}},
	{MAGIC(0, "PAR1"),
		{"a Parquet table", "read it with Loader(\"x.parquet\", ...) of the Python package, whose `stoker inspect` describes it",
			false}},
	{MAGIC(0, "version https://git-lfs.github.com/spec/"),
		{"a Git LFS pointer, which stands for the file until it is fetched", "fetch it: git lfs pull", false}},
	{MAGIC(0, "/annex/objects/"),
		{"a git-annex pointer, which stands for the file until it is fetched", "fetch it: git annex get FILE", false}}};

/* ---- boxes of ISO media: HEIC, AVIF, MP4 ---- */

static bool is_brand(const uint8_t *brand, const char *const *names)
{
	for (; *names; names++)
		if (memcmp(brand, *names, 4) == 0)
			return true;
	return false;
}

/* Returns whether the file is ISO media, and recognises its kind by the main brand. If that is a general brand of pictures ("mif1"), uses the list of
 * compatible brands. */
static bool find_media(const uint8_t *data, size_t size, struct stk_foreign *found)
{
	static const char *const avif[] = {"avif", "avis", NULL}, *const general[] = {"mif1", "msf1", NULL};
	static const char *const heic[] = {"heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs", "mif1", "msf1", "mif2", NULL};
	if (size < 12 || memcmp(data + 4, "ftyp", 4) != 0)
		return false;
	size_t box = stk__get32(data, false), end = box < size ? box : size;
	bool is_avif = is_brand(data + 8, avif);
	if (is_brand(data + 8, general))
		for (size_t at = 16; at + 4 <= end && at < BRANDS_SEEN; at += 4)
			is_avif |= is_brand(data + at, avif);
	if (is_avif)
		*found = (struct stk_foreign){"an AVIF picture", "convert it to PNG: avifdec in.avif out.png", true};
	else if (is_brand(data + 8, heic))
		*found = (struct stk_foreign){"a HEIC picture", "convert it to JPEG: heif-convert in.heic out.jpg", true};
	else if (memcmp(data + 8, "crx ", 4) == 0)
		*found = (struct stk_foreign){"a raw picture of a camera (CR3)", "develop it to JPEG or PNG first", true};
	else
		*found = (struct stk_foreign){"a video (MP4)", FRAMES("mp4"), true, true};
	return true;
}

/* ---- texts ---- */

static bool has_word(const uint8_t *text, size_t size, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= size; i++)
		if (strncasecmp((const char *)text + i, word, n) == 0)
			return true;
	return false;
}

static bool starts_with(const uint8_t *text, size_t size, const char *word)
{
	return has_word(text, size < strlen(word) ? size : strlen(word), word);
}

static bool find_markup(const uint8_t *data, size_t size, struct stk_foreign *found)
{
	size_t at = stk__byte_order_mark((const char *)data, size);
	while (at < size && at < TEXT_SEEN && memchr(" \t\r\n", data[at], 4))
		at++;
	const uint8_t *text = data + at;
	size_t left = size - at < TEXT_SEEN ? size - at : TEXT_SEEN;
	if (left < 2 || text[0] != '<')
		return false;
	bool xml = starts_with(text, left, "<?xml") || starts_with(text, left, "<!--") || starts_with(text, left, "<!doctype");
	if (starts_with(text, left, "<svg") || (xml && has_word(text, left, "<svg")))
		*found = (struct stk_foreign){"an SVG drawing", "convert it to PNG: rsvg-convert in.svg -o out.png", true};
	else if (starts_with(text, left, "<html") || starts_with(text, left, "<head") || starts_with(text, left, "<body") ||
		 (xml && has_word(text, left, "html")))
		*found = (struct stk_foreign){"an HTML page, as servers send it in place of a file",
			"open it in a browser to see what went wrong, then download the file again", false};
	else if (xml)
		*found = (struct stk_foreign){"an XML text, as stores send it in place of a file",
			"read it to see what went wrong, then download the file again", false};
	else
		return false;
	return true;
}

static bool is_zero(const uint8_t *data, size_t size)
{
	size_t n = size < ZEROS_SEEN ? size : ZEROS_SEEN;
	for (size_t i = 0; i < n; i++)
		if (data[i])
			return false;
	return n >= 16;
}

bool stk__foreign_find(const uint8_t *data, size_t size, struct stk_foreign *found)
{
	if (size == 0) {
		*found = (struct stk_foreign){"empty", again, false};
		return true;
	}
	if (is_zero(data, size)) {
		*found = (struct stk_foreign){"a file of zeros, as an unfinished download leaves it", again, false};
		return true;
	}
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
		const struct magic *m = &magics[i];
		if (size >= m->at + m->length && memcmp(data + m->at, m->bytes, m->length) == 0) {
			*found = m->kind;
			return true;
		}
	}
	return find_media(data, size, found) || find_markup(data, size, found);
}

static bool is_one_of(const char *ending, const char *const *endings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(ending, endings[i]) == 0)
			return true;
	return false;
}

bool stk__foreign_ending(const char *ending)
{
	static const char *const endings[] = {"gif", "jp2", "j2k", "jpx", "jpf", "jxl", "jxr", "heic", "heif", "avif", "psd", "ico", "exr",
		"hdr", "dds", "qoi", "svg", "eps", "tga", "pcx", "xpm", "fits", "dcm", "cr2", "cr3", "nef", "arw", "dng", "raf", "rw2",
		"orf"};
	return is_one_of(ending, endings, sizeof endings / sizeof *endings);
}

const char *const stk__video_globs[STK_VIDEO_GLOBS] = {"*.mp4", "*.mov", "*.m4v", "*.mkv", "*.webm", "*.avi", "*.ts", "*.m2ts", "*.mpg",
	"*.mpeg", "*.flv", "*.h264", "*.h265", "*.hevc", "*.mts", "*.m2t", "*.3gp", "*.3g2", "*.ogv", "*.vob", "*.m1v", "*.m2v", "*.mpe",
	"*.mj2", "*.ivf", "*.obu", "*.qt"};

bool stk__video_ending(const char *ending)
{
	for (size_t i = 0; i < STK_VIDEO_GLOBS; i++)
		if (strcasecmp(ending, stk__video_globs[i] + 2) == 0)
			return true;
	return false;
}
