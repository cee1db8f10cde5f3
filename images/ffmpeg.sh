#!/bin/sh
# Builds ffmpeg and ffprobe of the distribution's source package, which has its security fixes, with what the agent asks
# of them and nothing else (packages/media; images/ffmpeg.test.ts compares). What comes out is the same whenever the
# same source is built with the same packages.
#
#   ffmpeg.sh FOLDER      files for an image's root go there; the packages of the libraries that they link are named in
#                         usr/local/share/doc/ffmpeg/libraries
set -eu

# By the names of ffmpeg's configure, which are those of the programs but for `mpeg` (mpegps), `f32le` (pcm_f32le) and
# the decoder `msmpeg4` (msmpeg4v3).
DEMUXERS='mov matroska avi mpegts mpegps mpegvideo ogg mp3 wav flac aac aiff amr amrnb amrwb nut'
# By these ffmpeg tells what a stream is of which a transport stream does not say it (fmt_id_type in libavformat/demux.c);
# the agent opens no file with them. Those of codecs that are not accepted are there so that none is taken for another.
PROBES='aac ac3 aptx dts dvbsub dvbtxt eac3 h264 hevc loas m4v mjpeg_2000 mp3 mpegvideo truehd'
DECODERS='h264 hevc mpeg4 mpeg1video mpeg2video mpegvideo msmpeg4v2 msmpeg4v3 h263 h263p
  vp8 vp9 libdav1d theora mjpeg prores dnxhd dvvideo rawvideo ffv1 huffyuv ffvhuff utvideo qtrle
  aac aac_latm mp3 mp3float mp2 mp2float mp1 mp1float ac3 eac3 dca truehd opus vorbis flac alac amrnb amrwb speex wmav2
  adpcm_ms adpcm_ima_wav adpcm_ima_qt pcm_u8 pcm_s8 pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le pcm_s32be
  pcm_f32le pcm_f32be pcm_f64le pcm_f64be pcm_alaw pcm_mulaw pcm_bluray pcm_dvd'
# Those of the decoders, and none else; configure adds what a demuxer or decoder cannot do without.
PARSERS='h264 hevc mpeg4video mpegvideo h263 vp3 vp8 vp9 av1 mjpeg dnxhd
  aac aac_latm mpegaudio ac3 dca mlp opus vorbis flac amr'
ENCODERS='libx264 aac rawvideo pcm_f32le'
MUXERS='mp4 nut pcm_f32le'
# By the second, streams that carry their headers among their frames are known before they are decoded.
BSFS='setts extract_extradata'
FILTERS='aformat aresample asetpts bwdif format hflip scale setparams setpts setsar settb tonemap transpose vflip zscale'
PROTOCOLS='file pipe'
# Of the libraries x264 encodes, dav1d decodes AV1, and zimg converts colours; zlib and bzip2 are in headers of MOV and MKV.
LIBRARIES='libx264 libdav1d libzimg zlib bzlib'

PACKAGES='dpkg-dev gcc libc6-dev make nasm pkg-config libx264-dev libdav1d-dev libzimg-dev zlib1g-dev libbz2-dev'

to=$1
build=/tmp/ffmpeg-build

# Beside every entry of the distribution one of its sources: what others keep beside it may have none.
with_sources() {
  apt-get indextargets --format '$(ORIGIN) $(SOURCESENTRY)' 'Created-By: Packages' | sort -u | while read -r origin entry; do
    case $origin:${entry%:*} in
      Debian:*.sources | Ubuntu:*.sources) sed -i -E 's/^Types:\s*deb\s*$/Types: deb deb-src/' "${entry%:*}" ;;
      Debian:* | Ubuntu:*) sed -n "${entry##*:}s/^deb /deb-src /p" "${entry%:*}" ;;
    esac
  done > /tmp/with-sources.list
  mv /tmp/with-sources.list /etc/apt/sources.list.d/with-sources.list
}

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
apt-get update -qq
with_sources
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $PACKAGES
mkdir -p "$build" "$to"
cd "$build"
apt-get source -qq ffmpeg
cd ffmpeg-*/
version=$(dpkg-parsechangelog --show-field Version)

components() { for name in $2; do printf -- '--enable-%s=%s\n' "$1" "$name"; done; }
# shellcheck disable=SC2046
./configure --prefix=/usr/local --extra-version="${version##*-}" --toolchain=hardened \
  --disable-everything --disable-autodetect --disable-network --disable-avdevice --disable-doc --disable-debug \
  --disable-ffplay --enable-gpl --enable-pthreads $(printf -- '--enable-%s\n' $LIBRARIES) \
  $(components demuxer "$DEMUXERS $PROBES") $(components decoder "$DECODERS") $(components parser "$PARSERS") \
  $(components encoder "$ENCODERS") $(components muxer "$MUXERS") $(components bsf "$BSFS") \
  $(components filter "$FILTERS") $(components protocol "$PROTOCOLS") > configured 2>&1 || { cat configured; exit 1; }
# A name that this version does not know is only warned of, and what lacks a library is left out without a word.
if grep WARNING configured; then exit 1; fi
missing=0
check() {
  for name in $2; do
    grep -q "^#define CONFIG_$(echo "${name}_$1" | tr '[:lower:]' '[:upper:]') 1$" config_components.h ||
      { echo "ffmpeg $version cannot be built with the $1 $name"; missing=1; }
  done
}
check demuxer "$DEMUXERS $PROBES"; check decoder "$DECODERS"; check parser "$PARSERS"; check encoder "$ENCODERS"
check muxer "$MUXERS"; check bsf "$BSFS"; check filter "$FILTERS"; check protocol "$PROTOCOLS"
[ "$missing" = 0 ]
# In assembly where the processor has any.
case $(uname -m) in x86_64) grep -q '^#define HAVE_X86ASM 1$' config.h ;; aarch64) grep -q '^#define HAVE_NEON 1$' config.h ;; esac

make -s -j"$(nproc)" ffmpeg ffprobe
install -D -s -t "$to/usr/local/bin" ffmpeg ffprobe
doc=$to/usr/local/share/doc/ffmpeg
install -D -m 644 -t "$doc" debian/copyright ../ffmpeg_*.dsc
{
  echo "ffmpeg and ffprobe here are built of the source package named below, with the patches in it, under the GNU GPL,"
  echo "version 2 or later (copyright), and linked with the libraries of the packages in the file beside this one:"
  echo
  echo "  apt-get source ffmpeg=$version"
  echo
  "$to/usr/local/bin/ffmpeg" -version
} > "$doc/SOURCE"
# By its name alone: where /lib is /usr/lib a package may know a library by either folder.
for library in $(ldd "$to"/usr/local/bin/* | awk '$2 == "=>" { print $3 }' | sort -u); do
  package=$(dpkg-query --search "*/$(basename "$(realpath "$library")")")
  echo "${package%%:*}"
done | sort -u > "$doc/libraries"
cd /
rm -rf "$build"
