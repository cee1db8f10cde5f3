#!/bin/sh
# Builds ffmpeg and ffprobe from the distribution's source package, which has its security fixes, with only the
# components that the agent uses (packages/media; images/ffmpeg.test.ts compares them). The build is reproducible: the
# same source and packages give the same files.
#
#   ffmpeg.sh FOLDER      writes the files for an image's root into FOLDER; usr/local/share/doc/ffmpeg/libraries lists
#                         the packages of the libraries that they link
set -eu

# Names as in ffmpeg's configure. The programs use the same ones, except `mpeg` for mpegps, `f32le` for pcm_f32le and
# the decoder `msmpeg4` for msmpeg4v3.
DEMUXERS='mov matroska avi mpegts mpegps mpegvideo ogg mp3 wav flac aac aiff amr amrnb amrwb gif apng nut'
# With these demuxers ffmpeg probes the codec of a stream that a transport stream does not declare (fmt_id_type in
# libavformat/demux.c); the agent opens no file with them. The list includes codecs that are not accepted, so that none
# is mistaken for another.
PROBES='aac ac3 aptx dts dvbsub dvbtxt eac3 h264 hevc loas m4v mjpeg_2000 mp3 mpegvideo truehd'
DECODERS='h264 hevc mpeg4 mpeg1video mpeg2video mpegvideo msmpeg4v2 msmpeg4v3 h263 h263p
  vp8 vp9 libdav1d theora mjpeg prores dnxhd dvvideo rawvideo ffv1 huffyuv ffvhuff utvideo qtrle gif apng
  aac aac_latm mp3 mp3float mp2 mp2float mp1 mp1float ac3 eac3 dca truehd opus vorbis flac alac amrnb amrwb speex wmav2
  adpcm_ms adpcm_ima_wav adpcm_ima_qt pcm_u8 pcm_s8 pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le pcm_s32be
  pcm_f32le pcm_f32be pcm_f64le pcm_f64be pcm_alaw pcm_mulaw pcm_bluray pcm_dvd'
# Only parsers of the decoders above; configure adds those that a demuxer or decoder requires.
PARSERS='h264 hevc mpeg4video mpegvideo h263 vp3 vp8 vp9 av1 mjpeg dnxhd
  aac aac_latm mpegaudio ac3 dca mlp opus vorbis flac amr'
ENCODERS='libx264 aac rawvideo pcm_f32le'
MUXERS='mp4 nut pcm_f32le'
# extract_extradata finds the headers of streams that carry them among their frames, before decoding.
BSFS='setts extract_extradata'
FILTERS='aformat aresample asetpts bwdif drawbox format hflip overlay scale setparams setpts setsar settb split tonemap transpose vflip zscale'
PROTOCOLS='file pipe'
# x264 encodes, dav1d decodes AV1, and zimg converts colours; headers of MOV and MKV use zlib and bzip2.
LIBRARIES='libx264 libdav1d libzimg zlib bzlib'

PACKAGES='dpkg-dev gcc libc6-dev make nasm pkg-config libx264-dev libdav1d-dev libzimg-dev zlib1g-dev libbz2-dev'

to=$1
build=/tmp/ffmpeg-build

# Adds the source entry to every apt entry of the distribution. Repositories of others may have no sources.
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
# configure only warns about a name that this version lacks, and silently omits a component whose library is missing.
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
# The build must use the assembly code for this processor.
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
# The search uses only the base name: where /lib is /usr/lib, a package may list a library under either folder.
for library in $(ldd "$to"/usr/local/bin/* | awk '$2 == "=>" { print $3 }' | sort -u); do
  package=$(dpkg-query --search "*/$(basename "$(realpath "$library")")")
  echo "${package%%:*}"
done | sort -u > "$doc/libraries"
cd /
rm -rf "$build"
