import type { UsedModel } from '@semblance/engine-api/findings';
import {
  ActionAssertion,
  type ActionType,
  BMFFHashAssertion,
  ClaimVersion,
  DataHashAssertion,
  type DigitalSourceType,
  IngredientAssertion,
  type Manifest,
  ManifestStore,
  type RelationshipType,
  Signature,
} from '@trustnxt/c2pa-ts/manifest';
import type { Credential } from './signer.ts';
import type { Part } from './source-types.ts';

/** Parameter of an action with the options of the engine. C2PA wants a namespace for what others add. */
const OPTIONS = 'dev.semblance.options';
/** Bytes reserved for the signature, which is made last. An RSA key of 4096 bits needs 512. */
const SIGNATURE_ROOM = 1_024;

type ActionParameters = NonNullable<ActionAssertion['actions'][number]['parameters']>;

export interface Program {
  readonly name: string;
  readonly version: string;
}

export interface Ingredient {
  /** Role among the inputs; no other name of the owner's is disclosed. */
  readonly role: string;
  readonly part: Part;
  readonly sha256: Uint8Array;
}

export interface ManifestFacts {
  readonly contentType: string;
  /** Instance id; the XMP carries the same. */
  readonly instanceId: string;
  readonly generator: Program;
  readonly engine: Program;
  readonly digitalSourceType: string;
  readonly action: 'c2pa.edited' | 'c2pa.created';
  readonly ingredients: readonly Ingredient[];
  readonly models: readonly UsedModel[];
  /** What the engine was told beyond the parameters of the API, as text. */
  readonly options: Readonly<Record<string, string>>;
  readonly binding: 'data' | 'boxes';
}

export interface DraftManifest {
  /** Bytes that the manifest store will have. The file is laid out and hashed around a gap of this length. */
  readonly length: number;
  /** Binds the manifest to the file, signs it, and returns the store. */
  seal(hash: Uint8Array, span: { start: number; length: number }): Promise<Uint8Array>;
}

/** Creates a manifest (C2PA 2.1) with one claim and without a time stamp of an authority. */
export function draftManifest(facts: ManifestFacts, { cose }: Credential): DraftManifest {
  const store = new ManifestStore();
  const manifest = store.createManifest({
    claimVersion: ClaimVersion.V2,
    assetFormat: facts.contentType,
    instanceID: facts.instanceId,
    defaultHashAlgorithm: 'SHA-256',
    signer: cose,
  });
  const { claim } = manifest;
  if (!claim) throw new Error('the manifest has no claim');
  manifest.signature = Signature.create(cose, SIGNATURE_ROOM);
  claim.claimGeneratorName = facts.generator.name;
  claim.claimGeneratorVersion = facts.generator.version;
  addHistory(manifest, facts);
  const bind = facts.binding === 'data' ? bindData(manifest) : bindBoxes(manifest);
  const length = store.measureSize();
  return {
    length,
    async seal(hash, span) {
      bind(hash, span);
      await manifest.sign(cose);
      const sealed = store.getBytes();
      if (sealed.length !== length) {
        throw new Error(`the manifest has ${sealed.length} bytes, and ${length} were kept for it`);
      }
      return sealed;
    },
  };
}

function addHistory(manifest: Manifest, facts: ManifestFacts): void {
  const { action, digitalSourceType, engine, options } = facts;
  const ingredients = [
    ...facts.ingredients.map(({ role, part, sha256 }) => ingredient(part, role, sha256)),
    ...facts.models.map(modelIngredient),
  ];
  const added = ingredients.map(({ part, assertion }, index) => {
    if (index > 0) assertion.labelSuffix = index;
    manifest.addAssertion(assertion);
    return { part, reference: manifest.createAssertionReference(assertion) };
  });
  const references = (parent: boolean) => {
    const ingredients = added
      .filter(({ part }) => (part === 'parentOf') === parent)
      .map(({ reference }) => reference);
    return ingredients.length > 0 ? { ingredients } : {};
  };
  const withParameters = (parameters: object) =>
    Object.keys(parameters).length > 0 ? { parameters: parameters as ActionParameters } : {};
  const told = Object.keys(options).length > 0 ? { [OPTIONS]: { ...options } } : {};
  const actions = new ActionAssertion();
  if (action === 'c2pa.edited') {
    actions.actions.push({ action: 'c2pa.opened' as ActionType, ...withParameters(references(true)) });
  }
  actions.actions.push({
    action: action as ActionType,
    softwareAgent: engine,
    digitalSourceType: digitalSourceType as DigitalSourceType,
    ...withParameters({ ...references(false), ...told }),
  });
  manifest.addAssertion(actions);
}

interface NewIngredient {
  readonly part: Part;
  readonly assertion: IngredientAssertion;
}

function ingredient(part: Part, title: string, sha256: Uint8Array): NewIngredient {
  const assertion = IngredientAssertion.createV3(part as RelationshipType);
  assertion.title = title;
  // RFC 6920 names a file by its hash. Only a reader who has the file can recognise it.
  assertion.instanceID = `ni:///sha-256;${Buffer.from(sha256).toString('base64url')}`;
  return { part, assertion };
}

function modelIngredient({ name, sha256, licence }: UsedModel): NewIngredient {
  const made = ingredient('inputTo', name, Buffer.from(sha256, 'hex'));
  made.assertion.dataTypes = [{ type: 'c2pa.types.model' }];
  made.assertion.description = `Licence: ${licence}`;
  return made;
}

type Bind = (hash: Uint8Array, span: { start: number; length: number }) => void;

function bindData(manifest: Manifest): Bind {
  const assertion = DataHashAssertion.create('SHA-256');
  manifest.addAssertion(assertion);
  // A RIFF chunk of odd length has a padding byte that readers do not count as part of the manifest.
  assertion.paddingLength += manifest.parentStore.measureSize() % 2;
  const before = assertion.generateJUMBFBox().measureSize();
  return (hash, span) => {
    assertion.exclusions = [span];
    assertion.hash = hash;
    // The bytes that describe the manifest's position come off the padding, so the total length is constant.
    assertion.paddingLength -= assertion.generateJUMBFBox().measureSize() - before;
  };
}

function bindBoxes(manifest: Manifest): Bind {
  const assertion = BMFFHashAssertion.createV3('jumbf manifest', 'SHA-256');
  manifest.addAssertion(assertion);
  return (hash) => {
    assertion.hash = hash;
  };
}
