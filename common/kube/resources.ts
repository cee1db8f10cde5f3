import type { V1ObjectMeta } from '@kubernetes/client-node';

/** Metadata as sent on the wire: times are RFC 3339 strings, where the client library's classes use Dates. */
export type ObjectMeta = Omit<V1ObjectMeta, 'creationTimestamp' | 'deletionTimestamp' | 'managedFields'> & {
  creationTimestamp?: string;
  deletionTimestamp?: string;
};

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** Identifies a kind of resource at the API and carries the type of its objects. Group '' is the core group. */
export interface ResourceDescriptor<T extends KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  /** Carries the type only; it is never set. */
  readonly object?: T;
}

/** Refers to a namespaced object by name. References to cluster-scoped objects omit `namespace`. */
export interface ObjectRef {
  readonly namespace?: string;
  readonly name: string;
}

export interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    /** Time in RFC 3339 with microseconds, as all times of a Lease. */
    readonly acquireTime?: string;
    readonly renewTime?: string;
    readonly leaseTransitions?: number;
  };
}

/** An Event of events.k8s.io/v1. */
export interface KubeEvent extends KubeObject {
  readonly eventTime: string;
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly regarding: {
    readonly apiVersion?: string;
    readonly kind?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
  };
  readonly reportingController: string;
  readonly reportingInstance: string;
  readonly series?: { readonly count: number; readonly lastObservedTime: string };
}

export interface Namespace extends KubeObject {
  readonly status?: { readonly phase?: string };
}

export interface CustomResourceDefinition extends KubeObject {
  readonly spec: unknown;
  readonly status?: { readonly conditions?: readonly { type: string; status: string; message?: string }[] };
}

export const LEASE_RESOURCE: ResourceDescriptor<Lease> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
};

export const EVENT_RESOURCE: ResourceDescriptor<KubeEvent> = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
};

export const NAMESPACE_RESOURCE: ResourceDescriptor<Namespace> = {
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
};

export const CRD_RESOURCE: ResourceDescriptor<CustomResourceDefinition> = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
};

/** Returns the `apiVersion` of a resource's objects: `group/version`, or only the version in the core group. */
export function apiVersionOf(resource: ResourceDescriptor<KubeObject>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

export function collectionPath(resource: ResourceDescriptor<KubeObject>, namespace?: string): string {
  const root = resource.group === '' ? '/api' : '/apis';
  const scope = namespace === undefined ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}/${apiVersionOf(resource)}${scope}/${resource.plural}`;
}

/** Returns the path of one object, or of its subresource. */
export function objectPath(
  resource: ResourceDescriptor<KubeObject>,
  ref: ObjectRef,
  subresource?: string,
): string {
  // An empty name would address the whole collection, and deleting that must be impossible.
  if (!ref.name) throw new TypeError(`a ${resource.kind} is addressed by a name`);
  const path = `${collectionPath(resource, ref.namespace)}/${encodeURIComponent(ref.name)}`;
  return subresource ? `${path}/${subresource}` : path;
}

/**
 * Compares resource versions, which the API documents as ordered whole numbers within a resource.
 * @returns whether `a` is later than `b`; an absent version is older than all others
 */
export function isNewer(a: string | undefined, b: string | undefined): boolean {
  if (!a) return false;
  if (!b) return true;
  return a.length === b.length ? a > b : a.length > b.length;
}

/** Returns a time as Leases and events.k8s.io write it: RFC 3339 with microseconds. */
export function microTime(date: Date = new Date()): string {
  return date.toISOString().replace('Z', '000Z');
}
