// The draft of a review, as the screen uses it. Every change is kept at once.

import { computed, ref, shallowRef, watch } from 'vue';
import type { Ref } from 'vue';
import { earlierDrafts, EMPTY, loadDraft, saveDraft, withEarlier, without, withTyped } from './comments';
import type { Anchor, Draft, Keep, Typing } from './comments';

export function useDraft(run: () => string, head: Readonly<Ref<string | null>>, keep: Keep = window.localStorage) {
  const draft = shallowRef<Draft>(EMPTY);
  const earlier = shallowRef<{ head: string; draft: Draft }[]>([]);
  const unkept = ref(false);
  let opened = false;

  watch(
    [run, head],
    ([id, at]) => {
      draft.value = at === null ? EMPTY : loadDraft(keep, id, at);
      earlier.value = at === null ? [] : earlierDrafts(keep, id, at);
    },
    { immediate: true },
  );

  function change(to: Draft): void {
    draft.value = to;
    if (head.value !== null) unkept.value = !saveDraft(keep, run(), head.value, to);
  }

  function type(typing: Typing | null): void {
    change({ ...draft.value, typing });
  }

  return {
    draft,
    unkept,
    comments: computed(() => draft.value.comments),
    typing: computed(() => draft.value.typing),
    /** Comments that were written on other commits of the run. */
    earlier: computed(() => earlier.value.reduce((sum, one) => sum + one.draft.comments.length + (one.draft.typing ? 1 : 0), 0)),
    /** Opens the editor for a place; what is being typed elsewhere is added first, not lost. */
    begin(anchor: Anchor): void {
      const settled = withTyped(draft.value, crypto.randomUUID(), new Date().toISOString());
      opened = true;
      change({ ...settled, typing: { anchor, text: '', id: null } });
    },
    /** True once after the operator opened the editor: an editor that only comes into sight takes no focus. */
    takesFocus(): boolean {
      const now = opened;
      opened = false;
      return now;
    },
    edit(id: string): void {
      const settled = withTyped(draft.value, crypto.randomUUID(), new Date().toISOString());
      const comment = settled.comments.find((one) => one.id === id);
      opened = true;
      change({ ...settled, typing: comment ? { anchor: comment.anchor, text: comment.text, id } : null });
    },
    write(text: string): void {
      if (draft.value.typing) type({ ...draft.value.typing, text });
    },
    add(): void {
      change(withTyped(draft.value, crypto.randomUUID(), new Date().toISOString()));
    },
    cancel(): void {
      type(null);
    },
    remove(id: string): void {
      change(without(draft.value, id));
    },
    clear(): void {
      change(EMPTY);
    },
    takeEarlier(): void {
      change(withEarlier(draft.value, earlier.value));
      for (const one of earlier.value) saveDraft(keep, run(), one.head, EMPTY);
      earlier.value = [];
    },
    dropEarlier(): void {
      for (const one of earlier.value) saveDraft(keep, run(), one.head, EMPTY);
      earlier.value = [];
    },
  };
}

export type ReviewDraft = ReturnType<typeof useDraft>;
