/** A model file of the public, recognised by its hash. */
export interface KnownModel {
  readonly contract: string;
  /** Name under which its publisher distributes it. */
  readonly file: string;
}

/** A licence as the publisher of the weights states it. */
export interface KnownLicence {
  readonly text: string;
  /** Whether it forbids commercial use, or names no terms at all. */
  readonly nonCommercial: boolean;
}

const restricted = (text: string): KnownLicence => ({ text, nonCommercial: true });
const free = (text: string): KnownLicence => ({ text, nonCommercial: false });

/**
 * Licences of public weights by contract, as FaceFusion 3.8 states them for the files that it distributes (`license`
 * in the `__metadata__` of its processors, and of face_detector.py and its like). An owner may have other terms.
 */
const LICENCES: readonly (readonly [RegExp, KnownLicence])[] = [
  [/^(scrfd|retinaface|arcface|inswapper)_/, restricted('InsightFace, non-commercial research only')],
  [/^hyperswap_/, restricted('FaceFusion ResearchRAIL, non-commercial research only')],
  [/^simswap_/, restricted('SimSwap (neuralchen), non-commercial')],
  [/^hififace_/, restricted('HiFiFace (GuijiAI), no licence stated')],
  [/^crossface_/, restricted('FaceFusion crossface, no licence stated')],
  [/^blendswap_/, restricted('BlendSwap (mapooon), non-commercial')],
  [/^uniface_/, restricted('UniFace (xc-csc101), no licence stated')],
  [/^edtalk_/, free('EDTalk (tanshuai0219), Apache-2.0')],
  [/^ghost_/, free('Ghost (ai-forever), Apache-2.0')],
  [/^gpen_/, restricted('GPEN (yangxy), non-commercial')],
  [/^codeformer$/, restricted('CodeFormer (sczhou), S-Lab-1.0, non-commercial')],
  [/^wav2lip_/, restricted('Wav2Lip (Rudrabha), non-commercial')],
  [/^gfpgan_/, free('GFPGAN (TencentARC), Apache-2.0')],
  [/^restoreformer_/, free('RestoreFormer++ (wzhouxiff), Apache-2.0')],
  [/^yoloface_/, free('YOLOv8-face (derronqi), GPL-3.0')],
  [/^yunet_/, free('YuNet (OpenCV), MIT')],
  [/^2dfan4$/, free('face-alignment (breadbread1984), MIT')],
  [/^xseg_/, free('DeepFaceLab, GPL-3.0')],
  [/^bisenet_/, free('face-parsing (yakhyo), MIT')],
  [/^live_portrait_/, free('LivePortrait (KwaiVGI), MIT')],
];

/**
 * SHA-256 of public files → contract. Each value is in at least one public registry that states it as the digest of
 * its host or as checked after a download; a second registry agrees for all but `hyperswap_1b`, `scrfd_2.5g`,
 * `crossface_*`, `hififace`, `simswap_unofficial_512`, `restoreformer_plus_plus` and `gpen_bfr_2048`.
 */
const FILES: Readonly<Record<string, KnownModel>> = {
  '5838f7fe053675b1c7a08b633df49e7af5495cee0493c7dcf6697200b85b5b91': known('retinaface_10g', 'det_10g.onnx'),
  '2c07342347cef21a619c49dd5664fb8c09570ae9eda5bff3e385c11eafc45ada': known('scrfd_2.5g', 'scrfd_2.5g.onnx'),
  '821cdbb1e65fbbabdde7dd0933f754797a343e56fd962729c61ffcefcd135929': known('yoloface_8n'),
  '678c6fa539d52335a31c980feefdf4a6e02d781d83dce00af8a894f114557285': known('2dfan4'),
  f1f79dc3b0b79a69f94799af1fffebff09fbd78fd96a275fd8f0cbbea23270d1: known('arcface_w600k_r50'),
  '4c06341c33c2ca1f86781dab0e829f88ad5b64be9fba56e56bc9ebdefc619e43': known(
    'arcface_w600k_r50',
    'w600k_r50.onnx',
  ),
  e4a3f08c753cb72d04e10aa0f7dbe3deebbf39567d4ead6dce08e98aa49e16af: known('inswapper_128'),
  a290273ed497312095dac48cdef20feec9d5208298223dd01288ab202b54bea7: known('inswapper_128'),
  c4eccca86ad177586c85c28bf1a64a9d9ed237e283a15818d831f7facfd3f420: known('inswapper_128_fp16'),
  '6d51a9278a1f650cffefc18ba53f38bf2769bf4bbff89267822cf72945f8a38b': known('inswapper_128_fp16'),
  c0e98a8a03a238f461ed3d2570e426b49f46745ee400854a60dceeb70c246add: known('hyperswap_1a_256'),
  '5124031789c42f71b9558fb71954ef7aedb6da7ed9fac79293e23c61a792a73e': known('hyperswap_1b_256'),
  '5528c2d76fe9986c99d829278987ef9f3a630cb606db7628d02b57b330f406a5': known('hyperswap_1c_256'),
  '9de9751617976195114d7f067b9b6cf933748363355cf473cab2da57a739c2ef': known('hififace_unofficial_256'),
  dfb75f960cb8ef1967a82838e64963b9ff621c4af3e22f9fda48ad958dddec9a: known('crossface_hififace'),
  '6452a261ec30cc30afdbe4a426d82c3b10a476f2df794e3494071c02574e6829': known('crossface_simswap'),
  fe805d1ce7d9e66322e2a8811f593a821e7d92f9ff861dd233794bdb2bb7a586: known('simswap_unofficial_512'),
  accc4757b26bdb89b32b4d3500d4f79c9dff97c1dd7c7104bf9dcb95e3311385: known('gfpgan_1.4'),
  bad8bf0426873828df2dbf4e3b3d9ababba9da7965b8b72426569486f7ae5c25: known('gpen_bfr_256'),
  d5f066b9068a8b74217f9712e28e875a6144629b108a6f7355acbdb3a2832c54: known('gpen_bfr_512'),
  bcd31aa52110a2005efc96abbab4546d57e42482648f08715b552423d96b381b: known('gpen_bfr_1024'),
  '66d12a637118d71b00f5a290b8dac13c81c1c0326a127a1978799c6e17bb8d1f': known('gpen_bfr_2048'),
  f4db5a89902b6a2d452446f5721245a6f7185f699b6aec7b77285adb4d504337: known('restoreformer_plus_plus'),
  '48ccd7e8541e159a5a754ec9e62df2f12065f7df8f9af842c1750342c6533559': known('xseg_3'),
  '4a0b8c958a3c938913bd06a8365dbb3c8761afba6ecbf0d14b3b1f77eb230c96': known('bisenet_resnet_34'),
};

function known(contract: string, file = `${contract}.onnx`): KnownModel {
  return { contract, file };
}

/** @param sha256 64 lower-case hexadecimal digits */
export function knownModel(sha256: string): KnownModel | undefined {
  return FILES[sha256];
}

/** Returns the licence that is known for public weights of a contract. */
export function knownLicence(contract: string): KnownLicence | undefined {
  return LICENCES.find(([pattern]) => pattern.test(contract))?.[1];
}

/** Every hash in the table, for its tests. */
export const KNOWN_HASHES: readonly string[] = Object.keys(FILES);

/**
 * Returns whether the words of a licence forbid commercial use. Words cannot be judged for certain, so the manifest's
 * `non_commercial` decides where it stands.
 */
export function forbidsCommerce(licence: string): boolean {
  return /non[- ]?commercial|research[- ]only|researchrail|for research|cc[- ]by[- ]nc|s-lab|no licence stated/i.test(
    licence,
  );
}
