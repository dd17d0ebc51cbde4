#pragma once

void paged_attention_v1();
