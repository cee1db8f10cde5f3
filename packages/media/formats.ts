/** States what is taken in: the containers that the upload accepts, and the codecs that people's files in them have. */
import { resolve } from 'node:path';

const words = (...lines: string[]): string[] => lines.join(' ').split(' ');

/** Demuxers by ffmpeg's names. None of them opens another file: no playlists, no lists of pictures, no scripts. */
export const DEMUXERS: readonly string[] = words(
  'mov mp4 m4a 3gp 3g2 mj2 matroska webm avi mpegts mpeg mpegvideo ogg',
  'mp3 wav flac aac aiff amr amrnb amrwb',
);

/** Decoders of sound by ffmpeg's names. */
const SOUND_DECODERS = words(
  'aac aac_latm mp3 mp3float mp2 mp2float mp1 mp1float ac3 eac3 dca truehd opus libopus',
  'vorbis libvorbis flac alac amrnb amrwb libopencore_amrnb libopencore_amrwb speex libspeex wmav2',
  'adpcm_ms adpcm_ima_wav adpcm_ima_qt pcm_u8 pcm_s8 pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le',
  'pcm_s32be pcm_f32le pcm_f32be pcm_f64le pcm_f64be pcm_alaw pcm_mulaw pcm_bluray pcm_dvd',
);

/** Decoders of pictures by ffmpeg's names. */
const PICTURE_DECODERS = words(
  'h264 hevc mpeg4 mpeg1video mpeg2video mpegvideo msmpeg4 msmpeg4v2 h263 h263p',
  'vp8 vp9 libvpx libvpx-vp9 libdav1d libaom-av1 av1 theora mjpeg prores dnxhd',
  'dvvideo rawvideo ffv1 huffyuv ffvhuff utvideo qtrle',
);

/** Decoders by ffmpeg's names. */
export const DECODERS: readonly string[] = [...PICTURE_DECODERS, ...SOUND_DECODERS];

/** Pictures that are taken in, by ffmpeg's names of codecs, of which one is not that of its decoder. */
export const PICTURES: ReadonlySet<string> = new Set([...PICTURE_DECODERS, 'msmpeg4v3']);

/** Sound that is taken in, by ffmpeg's names of codecs, of which three are not those of their decoders. */
export const SOUND: ReadonlySet<string> = new Set([...SOUND_DECODERS, 'dts', 'amr_nb', 'amr_wb']);

/**
 * Decoders of subtitles. ffprobe opens one for every track it finds and gives up where it may not; none is fed
 * anything, since no such track is selected.
 */
const SUBTITLES = words(
  'srt subrip ass ssa mov_text webvtt text dvbsub dvdsub pgssub xsub cc_dec libzvbi_teletextdec subviewer stl microdvd',
);

/**
 * Decoders of cover pictures, and of tracks that files have beside the one that is used. As with subtitles, ffprobe
 * must be let open them to say what is in a file; where an ffmpeg has none of them, it goes on without. None is fed
 * anything: they are not among those by which it finds out more of a stream, and a track of theirs is refused when it
 * is chosen.
 */
const SPARE = words(
  'png bmp gif tiff webp apng jpeg2000 libopenjpeg jpegls',
  'flv h261 msmpeg4v1 wmv1 wmv2 wmv3 vc1 svq1 svq3 cinepak rpza vp6 vp6f vp6a vp7 dirac cfhd hap snow',
  'wmav1 wmapro wmavoice wmalossless mlp gsm gsm_ms libgsm libgsm_ms qdm2 tta wavpack ape atrac3 atrac3p ilbc g726',
);

/** Sound that MP4 carries as it is. */
export const COPIED_AUDIO: ReadonlySet<string> = new Set(words('aac mp3 ac3 eac3 alac opus flac'));

/** Streams of every kind that a file may have. */
const MAX_STREAMS = 128;

/**
 * Options before an input that keep ffmpeg and ffprobe to that one file. The path is given as a `file:` address, so
 * that none is taken for an option or for another protocol.
 */
export function inputArgs(path: string): string[] {
  return [...limitArgs(), '-i', `file:${resolve(path)}`];
}

/**
 * The same for an ffprobe that decodes nothing: it may open more decoders than are fed. Those of a kind of stream are
 * no business of the demuxer's, which by the list for all kinds finds out what streams are.
 */
export function lookArgs(path: string): string[] {
  const opened = [...OPENED, ...SPARE].join(',');
  const more = ['-codec_whitelist:v', opened, '-codec_whitelist:a', opened];
  return [...limitArgs(), ...more, '-i', `file:${resolve(path)}`];
}

const OPENED = [...DECODERS, ...SUBTITLES];

const limitArgs = () => [
  ...['-protocol_whitelist', 'file', '-format_whitelist', DEMUXERS.join(',')],
  ...['-codec_whitelist', OPENED.join(','), '-max_streams', String(MAX_STREAMS)],
];

/** Returns what a decoder may allocate for a picture: a little more than is taken, for the rims that codecs add. */
export const maxPixelsArgs = (maxPixels: number) => [
  '-max_pixels',
  String(Math.ceil(maxPixels * 1.1) + 500_000),
];
